// Two rounds of a task side by side.

import { get } from "./api.js";
import { shareText } from "./charts.js";
import { card, chip, el, quiet, table, tag } from "./dom.js";
import { count, DASH, duration, eth, measureOf } from "./format.js";
import { compareLink, roundLink, taskLink } from "./links.js";

export async function comparePage(task, one, other) {
  const blocks = await Promise.all([get(`/blocks/${task}/${one}`), get(`/blocks/${task}/${other}`)]);
  const columns = [{ name: "what" }, ...blocks.map((block) => ({ name: `round ${block.round}`, number: true })), { name: "difference", number: true }];
  return {
    crumbs: [[`Task ${blocks[0].task_id}`, taskLink(task)], [`Rounds ${one} and ${other}`, compareLink(task, one, other)]],
    content: [
      el("div", { class: "title" }, el("h1", {}, `Round ${one} and round ${other}`), blocks.map((block) => el("span", {},
        el("a", { href: roundLink(task, block.round) }, `Round ${block.round}`), " ", tag(block.outcome)))),
      card("In numbers", null, table("The rounds in numbers", columns, numbers(blocks).map((cells) => ({ cells })))),
      card("Shares", "What each worker's update gave to the next model.", shares(task, blocks, columns)),
      card("Who was drawn", null, roles(task, blocks)),
    ],
  };
}

const signed = (value, show) => (value === 0 ? "0" : `${value > 0 ? "+" : "−"}${show(Math.abs(value))}`);

function numbers(blocks) {
  const measure = measureOf(blocks[0].rule);
  const row = (name, value, show) => {
    const [left, right] = blocks.map(value);
    const isKnown = left !== null && right !== null;
    return [name, ...[left, right].map((each) => (each === null ? DASH : show(each))), isKnown ? signed(right - left, show) : DASH];
  };
  const money = (name, field) => {
    const [left, right] = blocks.map((block) => BigInt(block[field]));
    const more = right - left;
    return [name, eth(left), eth(right), more === 0n ? "0" : `${more > 0n ? "+" : "−"}${eth(more > 0n ? more : -more)}`];
  };
  const points = (value) => (measure.name === "accuracy" ? `${(100 * value).toFixed(2)} %` : measure.show(value));
  return [
    row(`${measure.name} before`, (block) => measure.of(block.head_loss), points),
    row("updates revealed", (block) => block.revealed, count), row("updates counted", (block) => block.included, count),
    row("proposals", (block) => block.attempts, count), row("lies proven", (block) => block.lies, count),
    money("rewards", "paid"), money("slashed", "slashed"), row("gas", (block) => block.gas, count),
    row("took", (block) => (block.opened && block.ended ? block.ended.time - block.opened.time : null), duration),
  ];
}

function shares(task, blocks, columns) {
  const given = blocks.map((block) => new Map((block.shares?.shares ?? []).filter((share) => share.worker).map((share) => [share.worker.id, share])));
  const ids = [...new Set(given.flatMap((each) => [...each.keys()]))].sort((a, b) => a - b);
  if (!ids.length) return quiet("Neither round has shares that belong to workers.");
  const rows = ids.map((id) => {
    const [left, right] = given.map((each) => each.get(id) ?? null);
    return [
      chip((left ?? right).worker, task), ...[left, right].map((share) => (share === null ? DASH : shareText(share.fraction))),
      left && right ? signed(right.fraction - left.fraction, (value) => `${(100 * value).toFixed(1)} points`) : DASH,
    ];
  });
  return table("Shares of workers", [{ name: "worker" }, ...columns.slice(1)], rows.map((cells) => ({ cells })));
}

function roles(task, blocks) {
  const people = (list) => (list?.length ? el("ul", { class: "chips" }, list.map((one) => el("li", {}, chip(one, task)))) : "nobody yet");
  const rows = [
    ["committee", ...blocks.map((block) => people(block.draw?.committee))],
    ["miner and backups", ...blocks.map((block) => people(block.draw?.proposers))],
  ];
  return table("Roles", [{ name: "role" }, ...blocks.map((block) => ({ name: `round ${block.round}`, wrap: true }))], rows.map((cells) => ({ cells })));
}
