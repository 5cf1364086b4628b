// Small helpers: elements from plain values. Text is always text, never markup.

import { clock, duration, short } from "./format.js";
import { explorerLink } from "./site.js";

export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// A hash, an address or a CID: shortened, with a button that copies all of it, and a link where an explorer knows it.
export function hash(text, kind = null, shown = short(text, 10, 6)) {
  const link = kind === null ? null : explorerLink(kind, text);
  const code = el("code", { title: text }, shown);
  return el("span", { class: "hash" }, link ? outside(link, code) : code, copyButton(text));
}

export const command = (text) => el("span", { class: "hash" }, el("code", {}, text), copyButton(text));

export const outside = (href, ...content) => el("a", { href, rel: "noopener noreferrer", target: "_blank" }, content);

export function copyButton(text) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${short(text, 10, 6)}`, title: "Copy", onclick: () => copy(text, button) }, copyIcon());
  return button;
}

const copyIcon = () => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
  svg("rect", { x: 5.5, y: 5.5, width: 8, height: 8, rx: 1.5 }), svg("path", { d: "M10.5 3.5v-1h-8v8h1" }));

async function copy(text, button) {
  const done = await copied(text);
  const said = el("span", { class: "copied", role: "status" }, done ? "Copied" : "Not copied: mark it and copy by hand");
  button.parentElement.querySelector(".copied")?.remove();
  button.after(said);
  setTimeout(() => said.remove(), 2500);
}

// Browsers offer the clipboard to pages from https and this machine only; elsewhere the old command still works.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el("textarea", { class: "offstage", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

// A moment to come with the time that is left, which counts down while the page is shown.
export const until = (seconds) => el("span", {}, `until ${clock(seconds)} UTC at the latest (`, el("b", { "data-until": seconds }, left(seconds)), ")");

function left(seconds) {
  const rest = Math.round(seconds - Date.now() / 1000);
  return rest > 0 ? `${duration(rest)} left` : "passed";
}

export function countDown() {
  for (const each of document.querySelectorAll("[data-until]")) each.textContent = left(Number(each.dataset.until));
}

const TONES = {
  final: "good", ok: "good", attests: "good", standing: "info", open: "info", internal: "info", running: "info", void: "warn", waiting: "info",
  "data unavailable": "warn", objects: "warn", silent: "warn", "no quorum": "warn", mismatch: "bad", "lie proven": "bad", lie: "bad",
  "no-reveal": "warn", liveness: "warn",
};
export const tone = (word) => TONES[word] ?? "";
export const tag = (word, text = word) => el("span", { class: `tag ${tone(word)}` }, text);
export const quiet = (...content) => el("p", { class: "quiet" }, content);

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value, more]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value, more ? el("small", {}, more) : null))));
}

export function table(caption, columns, rows) {
  const head = columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : null }, column.name));
  const body = rows.map((row) => el("tr", { class: row.tone ?? null },
    row.cells.map((cell, at) => el("td", { class: columns[at].number ? "number" : columns[at].wrap ? "wrap" : null }, cell))));
  return scrolling(caption, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// Wide content scrolls in its own box; where something is out of sight, a line above the box says so.
export function scrolling(label, content) {
  const box = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, content);
  const hint = el("p", { class: "swipe", "aria-hidden": "true" }, "More to the right: scroll sideways →");
  const update = () => hint.classList.toggle("on", box.scrollWidth - box.clientWidth - box.scrollLeft > 4);
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
  return [hint, box];
}

export function chip(who, task, mark = "", text = null) {
  return el("a", { class: `chip ${mark}`, href: `#/task/${task}/account/${who.account}`, title: who.account },
    el("b", {}, `#${who.id}`), text ? el("span", {}, text) : el("small", {}, short(who.account)));
}

export const chips = (items) => el("ul", { class: "chips" }, items.map((item) => el("li", {}, item)));
export const card = (title, hint, ...content) =>
  el("section", { class: "card" }, el("h2", {}, title), hint ? el("p", { class: "hint" }, hint) : null, content);
