// The pages: what is asked of the API, and how it is shown. Each returns { crumbs, content }.

import { all, get, Problem } from "./api.js";
import { bars, heat, isWide, legend, line, stack } from "./charts.js";
import { card, chip, chips, clock, count, el, eth, ether, facts, hash, loss, percent, short, table, tag, tone, when } from "./dom.js";

const taskLink = (task) => `#/task/${task}`;
const roundLink = (task, number) => `#/task/${task}/round/${number}`;
const plural = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

// All tasks

export async function overview() {
  const tasks = await all("/tasks");
  const rows = tasks.map((task) => ({
    cells: [
      el("a", { href: taskLink(task.task) }, `Task ${task.task_id}`), task.terms.rule, taskState(task), loss(task.head_loss),
      task.lies ? tag("lie", plural(task.lies, "lie")) : "none", eth(task.paid), count(task.participants),
    ],
  }));
  const columns = [
    { name: "task" }, { name: "rule" }, { name: "state" }, { name: "head's loss", number: true }, { name: "lies proven" },
    { name: "rewards", number: true }, { name: "participants", number: true },
  ];
  return {
    crumbs: [],
    content: [
      el("h1", {}, "Training tasks"),
      el("p", { class: "lead" }, "Models trained by people who need not trust each other. Every round can be redone by anyone; here is what that shows."),
      tasks.length
        ? el("section", { class: "card" }, table("Tasks", columns, rows))
        : card("No tasks yet", "The factory has not made any. This page fills itself when it does."),
    ],
  };
}

function taskState(task) {
  if (task.phase === "ended") return tag("final", "ended");
  return el("span", {}, tag("open", `round ${task.round} of ${task.rounds}`), ` ${task.phase}`);
}

// One task

export async function taskPage(task) {
  const [found, rounds, participants, audits] = await Promise.all([
    get(`/tasks/${task}`), all(`/tasks/${task}/rounds`), all(`/tasks/${task}/participants`), all(`/tasks/${task}/audits`),
  ]);
  const verdicts = new Map(audits.map((audit) => [audit.round, audit.verdict]));
  return {
    crumbs: [[`Task ${found.task_id}`, taskLink(task)]],
    content: [
      el("div", { class: "title" }, el("h1", {}, `Task ${found.task_id}`), taskState(found),
        found.lies ? tag("lie", `${plural(found.lies, "lie")} proven`) : null),
      el("p", { class: "lead" }, ruleSentence(found)),
      facts([
        ["rounds", `${found.rounds_final + found.rounds_void} of ${found.rounds}`, `${found.rounds_final} final, ${found.rounds_void} void`],
        ["head's loss", loss(found.head_loss), "median of the validators"],
        ["rewards", eth(found.paid), `of ${eth(found.funded)} put up`],
        ["slashed", eth(found.slashed), found.lies ? "lies and silence" : "silence"],
        ["participants", count(found.participants), `${found.eligible} can be drawn`],
        ["gas", count(found.gas), "all transactions"],
      ]),
      rounds.length ? taskCharts(found, rounds) : null,
      card("Rounds", "Each line is one pass of the protocol. Open one to see who did what and to have it redone.", roundTable(found, rounds, verdicts)),
      card("Participants", "Everybody who put stake behind themselves.", participantTable(found, participants)),
      card("Terms", "Frozen when the task was created.", termTable(found)),
    ],
  };
}

function ruleSentence(task) {
  const { terms } = task;
  const decided = {
    softmax: "a softmax of the committee's losses", "softmax-accuracy": "a softmax of the committee's missed accuracy",
    "committee-near": "nearness to the committee's own updates", "committee-far": "distance from the committee's own updates",
    mean: "equal parts", fedavg: "declared samples", fedreg: "equal parts and a moving average", fedrob: "the middle ranks of every parameter",
    median: "the median of every parameter", krum: "Krum, attested by the committee", "multi-krum": "multi-Krum, attested by the committee",
  }[terms.rule] ?? terms.rule;
  return `${count(terms.dimension)} parameters. ${terms.committee_size} validators a round; shares by ${decided} (rule ${terms.rule}).`;
}

function taskCharts(task, rounds) {
  const losses = rounds.map((one) => ({
    round: one.round, value: one.head_loss, href: roundLink(task.task, one.round), mark: one.lies ? "lie" : "",
    title: `round ${one.round}: loss ${loss(one.head_loss)}${one.lies ? ", a lie was proven" : ""}`,
  }));
  const pay = rounds.map((one) => ({
    round: one.round, href: roundLink(task.task, one.round), parts: [Number(BigInt(one.paid) / 10n ** 9n) / 1e9],
    mark: one.outcome === "void" ? "void" : "", title: `round ${one.round} (${one.outcome}): ${eth(one.paid)}`,
  }));
  return el("div", { class: "pair" },
    card("Loss of the head", `What the committee measured on its own data before each round. Lower is better; red: a lie was proven.${isWide(losses) ? " The axis is logarithmic." : ""}`,
      losses.some((point) => point.value !== null) ? line("Loss of the head by round", losses) : el("p", { class: "quiet" }, "No round has been scored yet.")),
    card("Rewards", "What each round paid to workers, committee and miner, in ETH.", stack("Rewards by round", pay, (tick) => String(+tick.toFixed(6))),
      rounds.some((one) => one.outcome === "void") ? legend([["final or open", ""], ["void", "void"]]) : null));
}

function roundTable(task, rounds, verdicts) {
  const columns = [
    { name: "round" }, { name: "outcome" }, { name: "head's loss", number: true }, { name: "updates counted", number: true },
    { name: "proposals" }, { name: "rewards", number: true }, { name: "slashed", number: true }, { name: "gas", number: true }, { name: "audit" },
  ];
  const rows = [...rounds].reverse().map((one) => ({
    cells: [
      el("a", { href: roundLink(task.task, one.round) }, `Round ${one.round}`),
      one.outcome === "open" ? tag("open", one.phase) : tag(one.outcome), loss(one.head_loss), `${one.included} of ${one.revealed}`,
      one.lies ? tag("lie", `${plural(one.lies, "lie")}, ${plural(one.attempts, "attempt")}`) : one.attempts ? plural(one.attempts, "attempt") : "none",
      ether(one.paid), one.slashed === "0" ? "0" : ether(one.slashed), count(one.gas),
      verdicts.has(one.round) ? tag(verdicts.get(one.round)) : el("a", { href: roundLink(task.task, one.round), "aria-label": `redo round ${one.round}` }, "redo"),
    ],
  }));
  return rows.length ? table("Rounds", columns, rows) : el("p", { class: "quiet" }, "The first draw waits for enough participants.");
}

function participantTable(task, participants) {
  const columns = [
    { name: "participant" }, { name: "stake", number: true }, { name: "earned", number: true }, { name: "slashed", number: true },
    { name: "rounds", number: true }, { name: "in the draw" },
  ];
  const rows = participants.map((one) => ({
    cells: [
      chip(one, task.task), ether(one.bonded), ether(one.earned), one.slashed === "0" ? "0" : ether(one.slashed), count(one.rounds),
      one.weight > 0 ? "yes" : el("span", { class: "quiet" }, one.enrolled ? "stake too low" : "left"),
    ],
  }));
  return table("Participants", columns, rows);
}

function termTable(task) {
  const { terms } = task;
  const rows = [
    ["task", hash(task.task)], ["sponsor", hash(task.sponsor)], ["chain", String(task.chain_id)], ["rule", `${terms.rule}, ${terms.statistic} of the committee`],
    ["updates a round", `${terms.min_updates} to ${terms.max_updates}`], ["minimum stake", eth(terms.min_stake)],
    ["a round's budget", Object.entries(terms.parts).map(([name, part]) => `${name} ${percent(part, 0)}`).join(", ")],
    ["slashes", Object.entries(terms.slashes).map(([name, part]) => `${name.replace("_", "-")} ${percent(part, 0)}`).join(", ")],
    ["phases", Object.entries(terms.seconds).map(([name, seconds]) => `${name} ${seconds} s`).join(", ")],
    ["manifest", hash(terms.manifest)], ["first model", hash(terms.first_root)], ["head", hash(task.head_root)],
  ];
  return table("Terms", [{ name: "term" }, { name: "value", wrap: true }], rows.map((cells) => ({ cells })));
}

// One round

export async function roundPage(task, number) {
  const [block, found] = await Promise.all([get(`/blocks/${task}/${number}`), get(`/tasks/${task}`)]);
  const who = (person, mark, text) => chip(person, task, mark, text);
  const lies = block.attempt_list.filter((attempt) => attempt.lie);
  return {
    crumbs: [[`Task ${block.task_id}`, taskLink(task)], [`Round ${number}`, roundLink(task, number)]],
    content: [
      el("div", { class: "title" }, el("h1", {}, `Round ${number}`), tag(block.outcome),
        lies.length ? tag("lie", "a lie was proven") : null,
        el("nav", { "aria-label": "Rounds" },
          el("a", { class: "button", href: roundLink(task, number - 1), "aria-disabled": number > 1 ? null : "true", rel: "prev" }, "‹ Before"),
          el("a", { class: "button", href: roundLink(task, number + 1), "aria-disabled": number < found.round ? null : "true", rel: "next" }, "Next ›"))),
      el("p", { class: "lead" }, roundSentence(block)),
      phases(block),
      lies.map((attempt) => lieBox(task, block, attempt)),
      facts([
        ["loss before", loss(block.head_loss), "of the model it started from"],
        block.scores || block.outcome !== "open" ? ["updates", `${block.included} of ${block.revealed}`, "count / were revealed"]
          : ["updates", count(block.committed), `sealed, ${block.revealed} revealed`],
        ["rewards", eth(block.paid), "to all together"], ["slashed", eth(block.slashed)], ["gas", count(block.gas), "its transactions"],
      ]),
      auditCard(task, number),
      drawCard(block, who),
      updatesCard(block, who),
      block.scores ? scoresCard(block, who) : null,
      sharesCard(block, who),
      block.attempt_list.length ? attemptsCard(task, block, who) : null,
      block.slashes.length ? slashCard(block, who) : null,
      block.rewards.some((row) => row.kind !== "caller") ? rewardCard(block, task) : null,
      gasCard(block),
      card("What happened", "Every step, as the contracts told it (UTC).", stepList(block)),
    ],
  };
}

function roundSentence(block) {
  if (block.outcome === "final") {
    const tries = block.attempts > 1 ? `, in attempt ${block.attempts}` : "";
    return `${plural(block.included, "update")} became the next model${tries}. Redo it below: nothing has to be believed.`;
  }
  if (block.outcome === "void") return "The round ended without a new model: the head stays, and work that was done is paid.";
  return `Running: ${block.phase}${block.deadline ? `, until ${clock(block.deadline)} UTC at the latest` : ""}. This page follows it.`;
}

const PHASES = [
  ["draw", "Draw"], ["train", "Train"], ["reveal", "Reveal"], ["score", "Score"], ["tally", "Tally"], ["propose", "Propose"], ["challenge", "Challenge"],
];

function phases(block) {
  const seen = new Set(block.steps.map((step) => step.phase));
  const now = PHASES.findIndex(([name]) => name === block.phase);
  const state = (name, at) => {
    if (block.outcome === "open") return at < now ? "done" : at === now ? "now" : "";
    return seen.has(name) || block.outcome === "final" ? "done" : "missed";
  };
  return el("ol", { class: "phases", "aria-label": "Phases" }, PHASES.map(([name, text], at) =>
    el("li", { class: state(name, at), "aria-current": state(name, at) === "now" ? "step" : null }, text)));
}

function lieBox(task, block, attempt) {
  const { lie } = attempt;
  const proof = `/blocks/${task}/${block.round}/proof/${lie.leaf}?attempt=${attempt.attempt}`;
  return el("section", { class: "lie" },
    el("h3", {}, `Lie: participant #${attempt.proposer.id} proposed a wrong model`),
    el("p", {}, "The contract re-executed one parameter from the leaves of head and updates and found another value than the proposal holds."),
    el("dl", {},
      ...[["parameter", count(lie.position)], ["expected", `${lie.expected_value.toFixed(7)} (${lie.expected})`],
        ["found", `${lie.found_value.toFixed(7)} (${lie.found})`, "was"], ["proven in block", count(lie.place.block_number)],
        ["shown by", short(lie.finder)]].map(([name, value, mark]) => el("div", {}, el("dt", {}, name), el("dd", { class: mark ?? null }, value)))),
    el("ul", {}, lie.convictions.map((one) => el("li", {},
      `#${one.account.id} ${one.part} it and was slashed ${eth(one.slashed)}: ${eth(one.burned)} burned, ${eth(one.to_escrow)} to the escrow, ${eth(one.to_finder)} to the finder`))),
    el("p", {}, el("a", { href: proof }, "Merkle evidence of the wrong parameter (JSON)")));
}

const verdicts = new Map();

function auditCard(task, number) {
  const known = verdicts.get(`${task}/${number}`);
  const body = el("div", { "aria-live": "polite" }, known ? auditView(known) : el("p", { class: "quiet" }, "Redoing the round…"));
  runAudit(task, number, body);
  return card("Audit", "The round redone by this server from the chain's events and the stored bytes alone.", body);
}

async function runAudit(task, number, body) {
  try {
    let audit = await get(`/blocks/${task}/${number}/audit?wait=20`);
    while (audit.state === "running" && body.isConnected) audit = await get(`/blocks/${task}/${number}/audit?wait=20`);
    verdicts.set(`${task}/${number}`, audit);
    body.replaceChildren(...auditView(audit));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    body.replaceChildren(el("p", { class: "error" }, error.message));
  }
}

function auditView(audit) {
  const bad = audit.findings.filter((finding) => finding.verdict !== "ok");
  const words = { ok: `All ${audit.findings.length} checks hold`, mismatch: "Something is not as it should be", "data unavailable": "Not everything could be checked" };
  return [
    el("p", { class: "verdict" }, tag(audit.verdict), el("span", {}, `${words[audit.verdict]}${audit.outcome === "open" ? " so far" : ""}. It took ${audit.seconds.toFixed(2)} s.`)),
    el("ol", { class: "checks" }, audit.findings.map((finding) => el("li", { class: tone(finding.verdict) },
      el("span", { class: "n" }, String(finding.number)), el("span", {}, finding.check), el("span", {}, tag(finding.verdict)),
      el("span", { class: "why" }, finding.verdict === "ok" ? okText(finding) : `expected ${finding.expected}; found ${finding.found}`)))),
    audit.challenge ? el("p", { class: "error" }, `The standing proposal is wrong at parameter ${audit.challenge.position}: anyone can prove it now.`) : null,
    bad.length ? null : el("p", { class: "hint own" }, "Do not take this server's word for it. The same on your machine: ",
      el("code", {}, `chainfl audit verify --task ${audit.task} --round ${audit.round} --store …`)),
  ].filter(Boolean);
}

const CHECKED = {
  draw: "the roles follow from stakes and the block's hash", commitments: "every reveal opens what was sealed before", inclusion: "the committee's vouching gives the same updates",
  scores: "the committee's statistic is the same", shares: "the same integers come out of the scores", "next committee": "the election comes out the same",
  "model root": "combining the updates again gives the same model", rewards: "everybody was credited what the rules give",
};

function okText(finding) {
  const more = finding.check === "update roots" ? finding.found : finding.check === "block record" ? short(finding.found, 14, 6) : "";
  return [CHECKED[finding.check] ?? finding.expected, more].filter(Boolean).join(": ");
}

function drawCard(block, who) {
  const { draw } = block;
  if (!draw) return card("Draw", "Nobody is drawn yet: the seed's block has to pass first.");
  const [miner, ...backups] = draw.proposers;
  return card("Who was drawn", `By stake, from the hash of block ${draw.block_number}; nobody could choose it.`,
    el("h3", {}, "Committee"), chips(draw.committee.map((person) => who(person))),
    el("h3", {}, "Miner and backups"), chips([who(miner, "", "miner"), ...backups.map((person) => who(person, "", "backup"))]),
    el("p", { class: "quiet" }, draw.workers ? `${plural(draw.workers.length, "worker")} drawn, ${draw.expected} may train with the backups.` : `Everybody else may train: ${draw.expected} expected. Seed `,
      draw.workers ? " Seed " : null, hash(draw.seed)));
}

function updatesCard(block, who) {
  if (!block.updates.length) return card("Updates", "Nobody has committed to an update yet.");
  const columns = [{ name: "worker" }, { name: "state" }, { name: "samples", number: true }, { name: "vouched for by", number: true }, { name: "root" }, { name: "bytes" }];
  const rows = block.updates.map((update) => ({
    cells: [
      who(update.worker), updateState(block, update), update.samples === null ? "–" : count(update.samples),
      update.vouches === null ? "–" : `${update.vouches} of ${block.scores.validators.length}`, update.root ? hash(update.root) : "–", update.cid ? hash(update.cid) : "–",
    ],
  }));
  return card("Who submitted", "Workers seal an update, then show it. It counts only if most of the committee had its bytes.", table("Updates", columns, rows));
}

function updateState(block, update) {
  if (update.member) return tag("", "committee's own");
  if (!update.root) return block.outcome === "open" && ["train", "reveal"].includes(block.phase) ? tag("open", "sealed") : tag("void", "never revealed");
  if (update.included === null) return tag("open", "revealed");
  return update.included ? tag("ok", "counts") : tag("void", "left out");
}

function scoresCard(block, who) {
  const hints = {
    loss: "Each validator's loss of each worker's update, on its own data. The stronger the colour, the worse; the first column is its loss of the head.",
    distance: "Squared distance of each worker's update from the validator's own. The stronger the colour, the farther.",
    vouch: "Whether the validator had the update's bytes and they were right.",
  };
  return card("Scores", hints[block.scores.kind], heat(block.scores, "head", (person) => who(person, "", " ")));
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

function attemptsCard(task, block, who) {
  const turns = block.attempt_list.map((attempt) => el("div", { class: "attempt" },
    el("header", {}, el("h3", {}, `Attempt ${attempt.attempt}`), who(attempt.proposer, "", "proposes"), tag(attempt.outcome)),
    attempt.model_root ? el("p", { class: "quiet" }, "model ", hash(attempt.model_root), ", block ", hash(attempt.block)) : el("p", { class: "quiet" }, "Nothing was proposed."),
    attempt.votes.length ? [
      chips(attempt.votes.map((vote) => voteChip(attempt, vote, who))),
      el("p", { class: "hint" }, `${attempt.votes.filter((vote) => vote.vote === "attests").length} attest; ${attempt.quorum} are needed.`)] : null));
  return card("Proposals and attestations", "The miner combines the updates; validators redo it and attest or object; anyone may prove it wrong.", turns);
}

function voteChip(attempt, vote, who) {
  if (attempt.lie && vote.vote === "attests") return who(vote.validator, "bad", "attested the lie");
  return who(vote.validator, tone(vote.vote), vote.vote === "open" ? "had not voted" : vote.vote);
}

function slashCard(block, who) {
  const columns = [{ name: "participant" }, { name: "why" }, { name: "phase" }, { name: "stake lost", number: true }, { name: "burned", number: true }];
  const rows = block.slashes.map((slash) => ({
    tone: slash.kind === "lie" ? "bad" : null,
    cells: [who(slash.account), tag(slash.kind), slash.phase, eth(slash.amount), eth(slash.burned)],
  }));
  return card("Slashes", "Opinion is never slashed, only silence and proven lies.", table("Slashes", columns, rows));
}

function rewardCard(block, task) {
  const columns = [{ name: "for" }, { name: "participant" }, { name: "amount", number: true }];
  const rows = block.rewards.filter((row) => row.kind !== "caller").map((row) => ({
    cells: [row.kind, row.id ? chip({ id: row.id, account: row.account }, task) : hash(row.account), eth(row.amount)],
  }));
  return el("details", { class: "card" }, el("summary", {}, `Rewards: ${eth(block.paid)}`), table("Rewards", columns, rows));
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
  el("span", { class: "when", title: `${when(step.place.time)} UTC, block ${step.place.block_number}` }, clock(step.place.time)))));

// One participant

export async function accountPage(task, account) {
  const [one, parts, slashes] = await Promise.all([
    get(`/tasks/${task}/participants/${account}`), all(`/tasks/${task}/participants/${account}/rounds`), all(`/tasks/${task}/slashes?account=${account}`),
  ]);
  const columns = [
    { name: "round" }, { name: "outcome" }, { name: "part" }, { name: "did" }, { name: "share", number: true }, { name: "earned", number: true }, { name: "slashed", number: true },
  ];
  const rows = [...parts].reverse().map((part) => ({
    tone: part.convicted ? "bad" : null,
    cells: [
      el("a", { href: roundLink(task, part.round) }, `Round ${part.round}`), tag(part.outcome), part.roles.join(", "), deeds(part),
      part.share === null ? "–" : percent(part.share / 2 ** 31), ether(part.earned), part.slashed === "0" ? "0" : ether(part.slashed),
    ],
  }));
  const guilty = slashes.filter((slash) => slash.kind === "lie");
  return {
    crumbs: [[`Task ${one.task_id}`, taskLink(task)], [`#${one.id}`, `#/task/${task}/account/${account}`]],
    content: [
      el("div", { class: "title" }, el("h1", {}, `Participant #${one.id}`), one.weight > 0 ? tag("ok", "in the draw") : tag("void", one.enrolled ? "stake too low" : "left"),
        guilty.length ? tag("lie", "convicted of a lie") : null),
      el("p", { class: "lead mono" }, one.account),
      facts([
        ["stake", eth(one.bonded), one.unbonding === "0" ? null : `${eth(one.unbonding)} unbonding`], ["earned", eth(one.earned), `${eth(one.claimed)} claimed`],
        ["slashed", eth(one.slashed)], ["rounds", count(one.rounds), "with a part in them"],
      ]),
      card("Round by round", "What it was drawn for, what it did, and what it got for it.", rows.length ? table("Rounds", columns, rows) : el("p", { class: "quiet" }, "It has had no part yet.")),
    ],
  };
}

function deeds(part) {
  const did = [];
  if (part.committed) did.push(part.revealed ? (part.included === false ? "trained, left out" : "trained") : part.outcome === "open" ? "sealed an update" : "did not reveal");
  if (part.scored) did.push("scored");
  if (part.proposed) did.push("proposed");
  if (part.vote) did.push({ attests: "attested", objects: "objected", silent: "was silent" }[part.vote]);
  return el("span", {}, did.join(", ") || "nothing", part.convicted ? [" ", tag("lie", "convicted")] : null);
}
