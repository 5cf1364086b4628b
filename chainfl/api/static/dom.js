// Small helpers: elements from plain values, amounts and names for people. Text is always text, never markup.

export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "onclick") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const ether = (wei) => {
  const value = Number(BigInt(wei) / 10n ** 9n) / 1e9;
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-4) return value.toExponential(1);
  return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) >= 100 ? 1 : 4 });
};
export const eth = (wei) => `${ether(wei)} ETH`;
export const count = (number) => number.toLocaleString("en");
export const percent = (fraction, digits = 1) => `${(100 * fraction).toFixed(digits)} %`;
export const short = (text, head = 6, tail = 4) => (text.length <= head + tail + 3 ? text : `${text.slice(0, head)}…${text.slice(-tail)}`);
export const hash = (text) => el("code", { title: text }, short(text, 10, 6));
export const when = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
export const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

export function loss(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 1e-4 || value >= 1e5) return value.toExponential(2);
  return value < 0.1 ? value.toPrecision(3) : value.toFixed(value < 1 ? 4 : 3);
}

const TONES = {
  final: "good", ok: "good", attests: "good", standing: "info", open: "info", running: "info", void: "warn", waiting: "info",
  "data unavailable": "warn", objects: "warn", silent: "warn", "no quorum": "warn", mismatch: "bad", "lie proven": "bad", lie: "bad",
  "no-reveal": "warn", liveness: "warn",
};
export const tone = (word) => TONES[word] ?? "";
export const tag = (word, text = word) => el("span", { class: `tag ${tone(word)}` }, text);

export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value, more]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value, more ? el("small", {}, more) : null))));
}

export function table(caption, columns, rows) {
  const head = columns.map((column) => el("th", { scope: "col", class: column.number ? "number" : null }, column.name));
  const body = rows.map((row) => el("tr", { class: row.tone ?? null },
    row.cells.map((cell, at) => el("td", { class: columns[at].number ? "number" : columns[at].wrap ? "wrap" : null }, cell))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

export function chip(who, task, mark = "", text = null) {
  return el("a", { class: `chip ${mark}`, href: `#/task/${task}/account/${who.account}`, title: who.account },
    el("b", {}, `#${who.id}`), text ? el("span", {}, text) : el("small", {}, short(who.account)));
}

export const chips = (items) => el("ul", { class: "chips" }, items.map((item) => el("li", {}, item)));
export const card = (title, hint, ...content) =>
  el("section", { class: "card" }, el("h2", {}, title), hint ? el("p", { class: "hint" }, hint) : null, content);
