// One task: how it goes, its rounds, its people, its terms.

import { all, get } from "./api.js";
import { columns, isWide, legend, line, weights } from "./charts.js";
import { card, chip, el, facts, hash, quiet, table, tag } from "./dom.js";
import { count, DASH, duration, eth, ether, measureOf, percent, plural } from "./format.js";
import { compareLink, DECIDED, roundLink, taskClock, taskLink, taskState } from "./links.js";
import { fromManifest, trainsText } from "./site.js";

export async function taskPage(task) {
  const [found, rounds, participants, audits] = await Promise.all([
    get(`/tasks/${task}`), all(`/tasks/${task}/rounds`), all(`/tasks/${task}/participants`), all(`/tasks/${task}/audits`),
  ]);
  const verdicts = new Map(audits.map((audit) => [audit.round, audit.verdict]));
  return {
    crumbs: [[`Task ${found.task_id}`, taskLink(task)]],
    content: [
      el("div", { class: "title" },
        el("h1", {}, `Task ${found.task_id}`, fromManifest(found, el("span", {}), (manifest) => `: ${trainsText(manifest)}`)),
        taskState(found), taskClock(found), found.lies ? tag("lie", `${plural(found.lies, "lie")} proven`) : null),
      el("p", { class: "lead" }, ruleSentence(found)),
      taskFacts(found),
      rounds.length ? taskCharts(found, rounds) : null,
      found.terms.min_internals ? outsideCards(task, rounds) : null,
      card("Rounds", "Each line is one pass of the protocol. Open one to see who did what and to have it redone.",
        roundTable(found, rounds, verdicts), rounds.length > 1 ? compareForm(task, rounds) : null),
      card("Participants", "Accounts with stake in this task.", participantTable(found, participants)),
      card("Terms", "Frozen when the task was created.", termTable(found)),
    ],
  };
}

function ruleSentence({ terms }) {
  const decided = DECIDED[terms.rule] ?? terms.rule;
  const judges = terms.min_internals ? `${terms.min_internals < terms.committee_size ? `${terms.min_internals} to ` : ""}${plural(terms.committee_size, "internal")} judge every round` : `${plural(terms.committee_size, "validator")} a round`;
  return `${plural(terms.dimension, "parameter")}. ${judges}; shares by ${decided} (rule ${terms.rule}).`;
}

function taskFacts(task) {
  const measure = measureOf(task.terms.rule);
  const ended = task.phase === "ended";
  const scored = task.head_loss === null ? "no committee has scored a model yet"
    : ended ? "before the last round; no committee scored the final model" : `${task.terms.statistic} of the validators`;
  return facts([
    ["rounds", `${task.rounds_final + task.rounds_void} of ${task.rounds}`, `${task.rounds_final} final, ${task.rounds_void} void`],
    [`head's ${measure.name}`, measure.show(task.head_loss), scored],
    ended ? [`final model's ${measure.name}`, "unknown", "scored only where a round follows"] : null,
    ["rewards", eth(task.paid), `of ${eth(task.funded)} put up`],
    ["slashed", eth(task.slashed), task.slashed === "0" ? "nobody lost stake" : task.lies ? "lies and silence" : "silence"],
    ["participants", count(task.participants), `${task.eligible} can be drawn`],
    ["gas", count(task.gas), "all transactions"],
  ]);
}

function taskCharts(task, rounds) {
  const measure = measureOf(task.terms.rule);
  const title = `${measure.name[0].toUpperCase()}${measure.name.slice(1)} of the head`;
  const points = rounds.map((one) => ({
    round: one.round, value: measure.of(one.head_loss), href: roundLink(task.task, one.round), mark: one.lies ? "lie" : "",
    title: `round ${one.round}: ${measure.name} ${measure.show(one.head_loss)}${one.lies ? ", a lie was proven" : ""}`,
  }));
  const pay = rounds.map((one) => ({
    round: one.round, href: roundLink(task.task, one.round), value: Number(BigInt(one.paid)) / 1e18,
    mark: one.outcome === "void" ? "void" : "", title: `round ${one.round} (${one.outcome}): ${eth(one.paid)}`,
  }));
  const hint = `What the committee measured on its own data before each round. ${measure.better} is better; red: a lie was proven.${isWide(points) ? " The axis is logarithmic." : ""}`;
  return el("div", { class: "pair" },
    card(title, hint, points.some((point) => point.value !== null) ? line(`${title} by round`, points) : quiet(whyUnscored(rounds))),
    card("Rewards", "What each round paid to workers, committee and miner, in ETH.",
      pay.some((one) => one.value > 0) ? payChart(pay) : quiet(whyUnpaid(rounds))));
}

// Who is not of the sponsor's own: how much all of them count for together, and each of them by itself.
function outsideCards(task, rounds) {
  const shown = rounds.filter((one) => one.outside !== null);
  const part = (one) => one.outside.reduce((sum, each) => sum + each.fraction, 0);
  const points = shown.map((one) => ({
    round: one.round, value: part(one), href: roundLink(task, one.round), title: `round ${one.round}: outsiders ${percent(part(one))} of the model`,
  }));
  const people = new Map(shown.flatMap((one) => one.outside.map(({ worker }) => [worker.id, worker])));
  const rows = [...people.values()].sort((a, b) => a.id - b.id).map((worker) => ({
    name: chip(worker, task), values: shown.map((one) => one.outside.find((each) => each.worker.id === worker.id)?.fraction ?? null),
  }));
  const none = quiet("Nothing to draw yet: shares are known when a round's Tally ends.");
  return el("div", { class: "pair" },
    card("Outsiders' part of the model", "The internals judge, and train too. A curve that falls shows fine-tuning: they need the others less.",
      shown.length ? line("Outsiders' part of the model by round", points) : none),
    card("Shares of outsiders", "What each update had of each round's model; an outsider is paid by it.",
      shown.length ? weights("Shares of outsiders by round", shown.map((one) => one.round), rows) : none));
}

const payChart = (pay) => [
  columns("Rewards by round", pay, (tick) => String(+tick.toFixed(6))),
  pay.some((one) => one.mark === "void") ? legend([["final or open", ""], ["void", "void"]]) : null,
];

// An empty chart says what it waits for.
function whyUnscored(rounds) {
  const ended = rounds.filter((one) => one.outcome !== "open");
  if (!ended.length) return "Nothing to draw yet: validators score the head in the first round, and their scores are known when its Tally ends.";
  if (ended.every((one) => one.outcome === "void")) return "Nothing to draw: every round so far ended without scores.";
  return "Nothing to draw: no majority of validators gave the head a score.";
}

function whyUnpaid(rounds) {
  if (rounds.every((one) => one.outcome === "open")) return "Nothing to draw yet: a round pays when it ends.";
  return "Nothing to draw: no round so far paid anybody.";
}

function roundTable(task, rounds, verdicts) {
  const measure = measureOf(task.terms.rule);
  const heads = [
    { name: "round" }, { name: "outcome" }, { name: `head's ${measure.name}`, number: true }, { name: "updates counted", number: true },
    { name: "proposals" }, { name: "rewards (ETH)", number: true }, { name: "slashed (ETH)", number: true }, { name: "gas", number: true }, { name: "audit" },
  ];
  const rows = [...rounds].reverse().map((one) => ({
    cells: [
      el("a", { href: roundLink(task.task, one.round) }, `Round ${one.round}`),
      one.outcome === "open" ? tag("open", one.phase) : tag(one.outcome), measure.show(one.head_loss), `${one.included} of ${one.revealed}`,
      one.lies ? tag("lie", `${plural(one.lies, "lie")}, ${plural(one.attempts, "attempt")}`) : one.attempts ? plural(one.attempts, "attempt") : "none",
      ether(one.paid), ether(one.slashed), count(one.gas),
      verdicts.has(one.round) ? tag(verdicts.get(one.round)) : el("a", { href: roundLink(task.task, one.round), "aria-label": `redo round ${one.round}` }, "redo"),
    ],
  }));
  return rows.length ? table("Rounds", heads, rows) : quiet("The first draw waits for enough participants.");
}

function compareForm(task, rounds) {
  const choice = (label, chosen) => el("select", { "aria-label": label }, rounds.map((one) =>
    el("option", { value: one.round, selected: one.round === chosen }, `Round ${one.round}`)));
  const one = choice("first round", rounds.at(-2).round);
  const other = choice("second round", rounds.at(-1).round);
  const go = () => { location.hash = compareLink(task, one.value, other.value); };
  return el("div", { class: "compare" }, "Compare ", one, " with ", other, el("button", { type: "button", onclick: go }, "Compare"));
}

const hasRoles = (participants) => participants.some((one) => one.role !== null);
const roleTag = (role) => (role === "internal" ? tag("internal") : role ?? DASH);

function participantTable(task, participants) {
  const heads = [
    { name: "participant" }, hasRoles(participants) ? { name: "role" } : null,
    { name: "stake (ETH)", number: true }, { name: "earned (ETH)", number: true }, { name: "slashed (ETH)", number: true },
    { name: "rounds", number: true }, { name: "in the draw" },
  ].filter(Boolean);
  const rows = participants.map((one) => ({
    cells: [
      chip(one, task.task), ...(hasRoles(participants) ? [roleTag(one.role)] : []), ether(one.bonded), ether(one.earned), ether(one.slashed), count(one.rounds),
      one.weight > 0 ? (one.role === "internal" && task.terms.min_internals ? "judges every round" : "yes") : el("span", { class: "quiet" }, one.enrolled ? "stake too low" : "left"),
    ],
  }));
  return rows.length ? table("Participants", heads, rows) : quiet("Nobody has enrolled yet.");
}

const steepness = (terms) => (terms.rule.startsWith("softmax") ? `, steepness ${Number(terms.beta) / 1e18}` : "");

function termTable(task) {
  const { terms } = task;
  const listed = (values, show) => Object.entries(values).map(([name, value]) => `${name.replace("_", "-")} ${show(value)}`).join(", ");
  const trained = (show) => fromManifest(task, el("span", {}), show, (why) => `unknown: ${why}`);
  const rows = [
    ["task", hash(task.task, "address")], ["sponsor", hash(task.sponsor, "address")], ["chain", String(task.chain_id)],
    ["trains", trained(trainsText)], ["learning", trained((manifest) => listed(manifest.settings, (value) => value))],
    ["app's digest", trained((manifest) => (manifest.digest === null ? DASH : hash(manifest.digest)))],
    ["rule", `${terms.rule}${steepness(terms)}, ${terms.statistic} of the committee`],
    ...(terms.rule === "varsel" ? [["outsiders' budget", `together they count for at most ${plural(terms.budget, "internal")}`]] : []),
    ["who may join", /^0x0*$/.test(terms.admission_root) ? "everybody" : el("span", {}, "whom the list with this root names: ", hash(terms.admission_root))],
    ["updates a round", `${terms.min_updates} to ${terms.max_updates}`], ["minimum stake", eth(terms.min_stake)],
    ["a round's budget", listed(terms.parts, (part) => percent(part, 0))], ["slashes", listed(terms.slashes, (part) => percent(part, 0))],
    ["phases", listed(terms.seconds, duration)],
    ["manifest", hash(terms.manifest)], ["first model", hash(terms.first_root)], ["head", hash(task.head_root)],
  ];
  return table("Terms", [{ name: "term" }, { name: "value", wrap: true }], rows.map((cells) => ({ cells })));
}
