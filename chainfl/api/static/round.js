// One round: who did what, what was decided, what it cost, and whether it is true.

import { get } from "./api.js";
import { auditCard, parameterName } from "./audit.js";
import { bars, heat } from "./charts.js";
import { card, chip, chips, command, el, facts, hash, outside, quiet, table, tag, tone, until } from "./dom.js";
import { clock, count, DASH, duration, eth, ether, measureOf, plural, when } from "./format.js";
import { compareLink, roundLink, taskLink } from "./links.js";
import { explorerLink } from "./site.js";

export async function roundPage(address, number) {
  const [block, task] = await Promise.all([get(`/blocks/${address}/${number}`), get(`/tasks/${address}`)]);
  const scored = await scoredLater(address, block);
  const measure = measureOf(block.rule);
  // An appointed committee is the internals with stake, whatever else they do in the round.
  const inside = new Set(task.terms.min_internals ? block.draw?.committee.map((person) => person.id) : []);
  const who = (person, mark = "", text = null) => {
    const made = chip(person, address, mark, text);
    if (inside.has(person.id)) made.append(el("em", { class: "inside" }, "internal"));
    return made;
  };
  const lies = block.attempt_list.filter((attempt) => attempt.lie);
  return {
    crumbs: [[`Task ${block.task_id}`, taskLink(address)], [`Round ${number}`, roundLink(address, number)]],
    content: [
      el("div", { class: "title" }, el("h1", {}, `Round ${number}`), tag(block.outcome), lies.length ? tag("lie", "a lie was proven") : null, turns(address, number, task)),
      el("p", { class: "lead" }, roundSentence(block)),
      phases(block),
      lies.map((attempt) => lieBox(task, block, attempt)),
      roundFacts(block, measure, scored),
      modelLine(address, block),
      auditCard(task, number),
      drawCard(block, who),
      updatesCard(block, who),
      scoresCard(block, measure, who),
      sharesCard(block, who),
      block.attempt_list.length ? attemptsCard(block, who) : null,
      block.slashes.length ? slashCard(block, who) : null,
      block.rewards.some((row) => row.kind !== "caller") ? rewardCard(block, address) : null,
      gasCard(block),
      card("What happened", "Every step, from the contracts' events (UTC).", stepList(block)),
    ],
  };
}

// The next round in which a committee scored the model of this one: rounds without a model may lie between.
async function scoredLater(address, block) {
  if (block.outcome !== "final") return null;
  const later = await get(`/tasks/${address}/rounds?after=${block.round}&limit=20`);
  const found = later.items.find((one) => one.head_loss !== null);
  if (!found) return null;
  const next = await get(`/blocks/${address}/${found.round}`);
  return next.head_root === block.model_root ? next : null;
}

const turns = (address, number, task) => el("nav", { "aria-label": "Rounds" },
  number > 1 ? el("a", { class: "button", href: compareLink(address, number - 1, number) }, "Compare") : null,
  number > 1 ? el("a", { class: "button", href: roundLink(address, number - 1), rel: "prev" }, "‹ Before") : null,
  number < task.round ? el("a", { class: "button", href: roundLink(address, number + 1), rel: "next" }, "Next ›") : null);

function roundSentence(block) {
  if (block.outcome === "final") {
    const tries = block.attempts > 1 ? `, in attempt ${block.attempts}` : "";
    return `${plural(block.included, "update")} became the next model${tries}. Redo it below: nothing has to be believed.`;
  }
  if (block.outcome === "void") return "The round ended without a new model: the head stays, and work that was done is paid.";
  return ["Running: ", block.phase, block.deadline ? [", ", until(block.deadline)] : null, ". This page follows it."];
}

function roundFacts(block, measure, scored) {
  const length = block.opened && block.ended ? block.ended.time - block.opened.time : null;
  const isScored = block.scores || block.outcome !== "open";
  return facts([
    [`${measure.name} before`, measure.show(block.head_loss), "of the model it started from"],
    block.outcome === "final" ? [`${measure.name} after`, scored ? measure.show(scored.head_loss) : "unknown",
      scored ? `of its model, scored in round ${scored.round}` : "no committee has scored its model"] : null,
    isScored ? ["updates", `${block.included} of ${block.revealed}`, "count / were revealed"] : ["updates", count(block.committed), `sealed, ${block.revealed} revealed`],
    ["rewards", eth(block.paid), "to all together"], ["slashed", eth(block.slashed)], ["gas", count(block.gas), "its transactions"],
    length === null ? null : ["took", duration(length), "from the draw's opening to the end"],
  ]);
}

const modelLine = (address, block) => (block.model_root === null ? null : card("Its model", "The root on chain binds every parameter; the record names the bytes.",
  el("dl", { class: "names" },
    el("div", {}, el("dt", {}, "root"), el("dd", {}, hash(block.model_root))),
    el("div", {}, el("dt", {}, "block record"), el("dd", {}, hash(block.block)))),
  el("p", { class: "files" },
    el("a", { class: "button", href: `/blocks/${address}/${block.round}/model.safetensors`, download: "" }, "Download the model (safetensors)"),
    el("a", { href: `/blocks/${address}/${block.round}/model.safetensors.intoto.json`, download: "" }, "Statement of its origin (in-toto)")),
  el("p", { class: "hint own" }, "Prove offline that the file is this model: ", command("chainfl model verify model.safetensors --bundle task.car --block-hash 0x…"))));

const PHASES = [
  ["draw", "Draw"], ["train", "Train"], ["reveal", "Reveal"], ["score", "Score"], ["tally", "Tally"], ["propose", "Propose"], ["challenge", "Challenge"],
];
const SAID = { done: "done", now: "running", missed: "not reached", "": "to come" };

function phases(block) {
  const seen = new Set(block.steps.map((step) => step.phase));
  const now = PHASES.findIndex(([name]) => name === block.phase);
  const state = (name, at) => {
    if (block.outcome === "open") return at < now ? "done" : at === now ? "now" : "";
    return seen.has(name) || block.outcome === "final" ? "done" : "missed";
  };
  return el("ol", { class: "phases", "aria-label": "Phases" }, PHASES.map(([name, text], at) =>
    el("li", { class: state(name, at), "aria-current": state(name, at) === "now" ? "step" : null, title: SAID[state(name, at)] }, text)));
}

function lieBox(task, block, { attempt, proposer, lie }) {
  const proof = `/blocks/${task.task}/${block.round}/proof/${lie.leaf}?attempt=${attempt}`;
  const rows = [
    ["parameter", parameterName(task, lie.position)], ["expected", `${lie.expected_value.toFixed(7)} (${lie.expected})`],
    ["found", `${lie.found_value.toFixed(7)} (${lie.found})`, "was"], ["proven in block", placeLink(lie.place, count(lie.place.block_number))],
    ["shown by", hash(lie.finder, "address")],
  ];
  return el("section", { class: "lie" },
    el("h2", {}, `Lie: participant #${proposer.id} proposed a wrong model`),
    el("p", {}, "The contract re-executed one parameter from the leaves of head and updates and found another value than the proposal holds."),
    el("dl", {}, rows.map(([name, value, mark]) => el("div", {}, el("dt", {}, name), el("dd", { class: mark ?? null }, value)))),
    el("ul", {}, lie.convictions.map((one) => el("li", {},
      `#${one.account.id} ${one.part} it and was slashed ${eth(one.slashed)}: ${eth(one.burned)} burned, ${eth(one.to_escrow)} to the escrow, ${eth(one.to_finder)} to the finder`))),
    el("p", {}, el("a", { href: proof }, "Merkle evidence of the wrong parameter (JSON)")));
}

function placeLink(place, text) {
  const link = explorerLink("tx", place.transaction);
  return link ? outside(link, text) : text;
}

function drawCard(block, who) {
  const { draw } = block;
  if (!draw) return card("Draw", "Not drawn yet: the block that seeds the draw is still to come.");
  const [miner, ...backups] = draw.proposers;
  const drawn = draw.workers ? `${plural(draw.workers.length, "worker")} drawn, ${draw.expected} may train with the backups.` : `Everybody else may train: ${draw.expected} expected.`;
  return card("Who was drawn", `By stake, from the randomness of block ${count(draw.block_number)}; nobody could choose it.`,
    el("h3", {}, "Committee"), chips(draw.committee.map((person) => who(person))),
    el("h3", {}, "Miner and backups"), chips([who(miner, "", "miner"), ...backups.map((person) => who(person, "", "backup"))]),
    quiet(`${drawn} Seed `, hash(draw.seed)));
}

function updatesCard(block, who) {
  if (!block.updates.length) return card("Updates", "No commitments yet.");
  const columns = [{ name: "worker" }, { name: "state" }, { name: "samples", number: true }, { name: "vouched for by", number: true }, { name: "root" }, { name: "bytes" }];
  const rows = block.updates.map((update) => ({
    cells: [
      who(update.worker), updateState(block, update), update.samples === null ? DASH : count(update.samples),
      update.vouches === null ? DASH : `${update.vouches} of ${seats(block, update)}`, update.root ? hash(update.root) : DASH, update.cid ? hash(update.cid) : DASH,
    ],
  }));
  return card("Who submitted", "Workers seal an update, then show it. It counts only if most of the committee had its bytes.", table("Updates", columns, rows));
}

/** How many judge an update: all validators but its own worker, where that one is a validator too. */
const seats = (block, update) => block.scores.validators.filter(({ validator }) => validator.id !== update.worker.id).length;

function updateState(block, update) {
  if (update.member) return tag("", "committee's own");
  if (!update.root) return block.outcome === "open" && ["train", "reveal"].includes(block.phase) ? tag("open", "sealed") : tag("void", "never revealed");
  if (update.included === null) return tag("open", "revealed");
  return update.included ? tag("ok", "counts") : tag("void", "left out");
}

function scoresCard(block, measure, who) {
  if (!block.scores) return card("Scores", block.outcome === "open" ? "None yet: validators score updates once these are revealed." : "None: the round ended before anything was scored.");
  const hints = {
    loss: measure.name === "accuracy"
      ? "Each validator's accuracy of each worker's update, on its own data. The stronger the colour, the more was missed; the first column is the head."
      : "Each validator's loss of each worker's update, on its own data. The stronger the colour, the worse; the first column is its loss of the head.",
    distance: "Squared distance of each worker's update from the validator's own. The stronger the colour, the farther.",
    vouch: "Whether the validator had the update's bytes and they were right.",
  };
  return card("Scores", hints[block.scores.kind], heat(block.scores, measure, (person) => who(person, "", " ")));
}

function sharesCard(block, who) {
  const { shares } = block;
  if (!shares) return null;
  if (!shares.shares.length) return card("Shares", "None were formed: too few scores or updates, or the proposer has not posted them.");
  const items = shares.shares.filter((share) => share.owner !== "head" || share.share > 0).map((share) => {
    const label = share.owner === "head" ? "the head" : share.owner === "rank" ? `rank ${share.index}` : `worker ${share.worker.id}`;
    return { name: share.worker ? who(share.worker) : label, label, fraction: share.fraction };
  });
  const by = shares.decided_by === "contract" ? "Computed by the contract from the revealed scores, in integers." : "Posted by the proposer and attested by the committee.";
  return card("Shares of the next model", by, bars(items));
}

function attemptsCard(block, who) {
  const each = block.attempt_list.map((attempt) => el("div", { class: "attempt" },
    el("div", { class: "row" }, el("h3", {}, `Attempt ${attempt.attempt}`), who(attempt.proposer, "", "proposes"), tag(attempt.outcome)),
    attempt.model_root ? quiet("model ", hash(attempt.model_root), ", block ", hash(attempt.block)) : quiet("Nothing was proposed."),
    attempt.votes.length ? [
      chips(attempt.votes.map((vote) => voteChip(attempt, vote, who))),
      el("p", { class: "hint" }, `${attempt.votes.filter((vote) => vote.vote === "attests").length} attest; ${attempt.quorum} are needed.`)] : null));
  return card("Proposals and attestations", "The miner combines the updates; validators redo it and attest or object; anyone may prove it wrong.", each);
}

function voteChip(attempt, vote, who) {
  if (attempt.lie && vote.vote === "attests") return who(vote.validator, "bad", "attested the lie");
  return who(vote.validator, tone(vote.vote), vote.vote === "open" ? "had not voted" : vote.vote);
}

function slashCard(block, who) {
  const columns = [
    { name: "participant" }, { name: "why" }, { name: "phase" }, { name: "stake lost (ETH)", number: true }, { name: "burned (ETH)", number: true },
    { name: "to the finder (ETH)", number: true },
  ];
  const rows = block.slashes.map((slash) => ({
    tone: slash.kind === "lie" ? "bad" : null,
    cells: [who(slash.account), tag(slash.kind), slash.phase, ether(slash.amount), ether(slash.burned), ether(slash.to_finder)],
  }));
  return card("Slashes", "Opinion is never slashed, only silence and proven lies.", table("Slashes", columns, rows));
}

function rewardCard(block, address) {
  const columns = [{ name: "for" }, { name: "participant" }, { name: "amount (ETH)", number: true }];
  const rows = block.rewards.filter((row) => row.kind !== "caller").map((row) => ({
    cells: [row.kind, row.id ? chip({ id: row.id, account: row.account }, address) : hash(row.account, "address"), ether(row.amount)],
  }));
  return el("details", { class: "card" }, el("summary", {}, `Rewards: ${eth(block.paid)}`),
    el("p", { class: "hint" }, "A finder's part comes from the liar's stake and is not in this sum."), table("Rewards", columns, rows));
}

function gasCard(block) {
  const columns = [{ name: "transaction" }, { name: "how many", number: true }, { name: "gas", number: true }, { name: "each", number: true }];
  const rows = block.gas_by_action.map((row) => ({
    cells: [row.action.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase(), count(row.transactions), count(row.gas), count(Math.round(row.gas / row.transactions))],
  }));
  return el("details", { class: "card" }, el("summary", {}, `Gas: ${count(block.gas)}`), table("Gas", columns, rows));
}

const stepList = (block) => el("ol", { class: "steps" }, block.steps.map((step, at) => el("li", { class: step.tone },
  el("span", { class: "phase" }, step.phase === block.steps[at - 1]?.phase ? "" : step.phase), el("span", {}, step.text),
  el("span", { class: "when", title: `${when(step.place.time)} UTC, block ${step.place.block_number}` }, placeLink(step.place, clock(step.place.time))))));
