// One participant of a task.

import { all, get } from "./api.js";
import { card, el, facts, hash, quiet, table, tag } from "./dom.js";
import { count, DASH, eth, ether, percent } from "./format.js";
import { accountLink, roundLink, taskLink } from "./links.js";

export async function accountPage(task, account) {
  const [one, parts, slashes, found] = await Promise.all([
    get(`/tasks/${task}/participants/${account}`), all(`/tasks/${task}/participants/${account}/rounds`),
    all(`/tasks/${task}/slashes?account=${account}`), all(`/tasks/${task}/rewards?account=${account}&kind=finder`),
  ]);
  const guilty = slashes.some((slash) => slash.kind === "lie");
  return {
    crumbs: [[`Task ${one.task_id}`, taskLink(task)], [`#${one.id}`, accountLink(task, account)]],
    content: [
      el("div", { class: "title" }, el("h1", {}, `Participant #${one.id}`), one.weight > 0 ? tag("ok", "in the draw") : tag("void", one.enrolled ? "stake too low" : "left"),
        guilty ? tag("lie", "convicted of a lie") : null),
      el("p", { class: "lead mono" }, hash(one.account, "address", one.account)),
      facts([
        ["stake", eth(one.bonded), one.unbonding === "0" ? null : `${eth(one.unbonding)} unbonding`],
        ["earned", eth(one.earned), earnedNote(one, found)],
        ["slashed", eth(one.slashed)], ["rounds", count(one.rounds), "with a part in them"],
      ]),
      card("Round by round", "What it was drawn for, what it did, and what it got for it.",
        parts.length ? roundTable(task, parts) : quiet("It has had no part yet.")),
    ],
  };
}

function earnedNote(one, found) {
  const bounty = found.reduce((sum, row) => sum + BigInt(row.amount), 0n);
  const claimed = `${eth(one.claimed)} claimed`;
  return bounty > 0n ? `${claimed}; ${eth(bounty)} for lies it proved, as free stake` : claimed;
}

function roundTable(task, parts) {
  const columns = [
    { name: "round" }, { name: "outcome" }, { name: "part" }, { name: "did" }, { name: "share", number: true }, { name: "earned (ETH)", number: true }, { name: "slashed (ETH)", number: true },
  ];
  const rows = [...parts].reverse().map((part) => ({
    tone: part.convicted ? "bad" : null,
    cells: [
      el("a", { href: roundLink(task, part.round) }, `Round ${part.round}`), tag(part.outcome), part.roles.join(", "), deeds(part),
      part.share === null ? DASH : percent(part.share / 2 ** 31), ether(part.earned), ether(part.slashed),
    ],
  }));
  return table("Rounds", columns, rows);
}

function deeds(part) {
  const did = [];
  if (part.committed) did.push(part.revealed ? (part.included === false ? "trained, left out" : "trained") : part.outcome === "open" ? "sealed an update" : "did not reveal");
  if (part.scored) did.push("scored");
  if (part.proposed) did.push("proposed");
  if (part.vote) did.push({ attests: "attested", objects: "objected", silent: "was silent" }[part.vote]);
  if (part.roles.includes("finder")) did.push("proved a lie");
  return el("span", {}, did.join(", ") || "nothing", part.convicted ? [" ", tag("lie", "convicted")] : null);
}
