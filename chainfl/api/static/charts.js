// Charts in plain SVG: a line or bars over rounds, a heat map, bars for shares. Every mark says its value.
// Marks are links for the mouse; with the keyboard the same links are in the table below, so Tab passes charts by.

import { el, scrolling, svg } from "./dom.js";
import { percent } from "./format.js";

const W = 560, H = 220, LEFT = 52, RIGHT = 12, TOP = 12, BOTTOM = 28;

function frame(label, rounds, ticks, y, text) {
  const x = scaleX(rounds);
  const every = Math.ceil(rounds.length / 12);
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": label },
    ticks.map((tick) => [
      svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick) }),
      svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, text(tick)),
    ]),
    svg("text", { x: LEFT - 8, y: H - 3, "text-anchor": "end" }, "round"),
    rounds.map((number, at) => (at % every ? null : svg("text", { x: x(at), y: H - 8, "text-anchor": "middle" }, String(number)))));
}

const scaleX = (rounds) => (at) => LEFT + (W - LEFT - RIGHT) * ((at + 0.5) / rounds.length);

function nice(most) {
  if (!(most > 0)) return [0, 1];
  const step = 10 ** Math.floor(Math.log10(most / 2));
  const unit = [1, 2, 5, 10].map((factor) => factor * step).find((size) => most / size <= 4);
  return Array.from({ length: Math.ceil(most / unit - 1e-9) + 1 }, (_, at) => at * unit);
}

// Values over two decades and more would lie flat on the ground of a plain axis.
export function isWide(points) {
  const known = points.map((point) => point.value).filter((value) => value !== null);
  return known.length > 1 && Math.min(...known) > 0 && Math.max(...known) >= 100 * Math.min(...known);
}

function plainAxis(values) {
  const ticks = nice(Math.max(...values));
  const top = ticks[ticks.length - 1];
  return { ticks, up: (value) => value / top, text: (tick) => (top >= 1e4 || top < 0.01 ? tick.toExponential(0) : String(+tick.toFixed(4))) };
}

function wideAxis(values) {
  const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
  const every = Math.ceil((high - low) / 5);
  const ticks = Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, at) => 10 ** (low + at * every));
  const text = (tick) => (tick >= 0.001 && tick < 1e5 ? String(+tick.toFixed(4)) : tick.toExponential(0));
  return { ticks, up: (value) => (Math.log10(value) - low) / (high - low), text };
}

// points: [{round, value, href, title, mark}], value null where nothing was measured
export function line(label, points) {
  const values = points.map((point) => point.value).filter((value) => value !== null);
  const axis = isWide(points) ? wideAxis(values) : plainAxis(values);
  const y = (value) => H - BOTTOM - (H - TOP - BOTTOM) * axis.up(value);
  const rounds = points.map((point) => point.round);
  const x = scaleX(rounds);
  const known = points.map((point, at) => ({ ...point, at })).filter((point) => point.value !== null);
  const chart = frame(label, rounds, axis.ticks, y, axis.text);
  chart.append(
    svg("polyline", { class: "line", points: known.map((point) => `${x(point.at)},${y(point.value)}`).join(" ") }),
    ...known.map((point) => svg("a", { href: point.href, "aria-label": point.title, tabindex: "-1" },
      svg("title", {}, point.title), svg("circle", { class: `dot ${point.mark ?? ""}`, cx: x(point.at), cy: y(point.value), r: 6 }))));
  return chart;
}

// columns: [{round, value, href, title, mark}]
export function columns(label, items, text) {
  const ticks = nice(Math.max(...items.map((item) => item.value)));
  const top = ticks[ticks.length - 1];
  const height = (value) => (H - TOP - BOTTOM) * (value / top);
  const rounds = items.map((item) => item.round);
  const x = scaleX(rounds);
  const width = Math.min(44, 0.7 * (W - LEFT - RIGHT) / items.length);
  const chart = frame(label, rounds, ticks, (tick) => H - BOTTOM - height(tick), text);
  items.forEach((item, at) => {
    const tall = Math.max(height(item.value), item.mark ? 3 : 0); // a marked round is seen also where it paid nothing
    chart.append(svg("a", { href: item.href, "aria-label": item.title, tabindex: "-1" }, svg("title", {}, item.title),
      svg("rect", { class: `bar ${item.mark}`, x: x(at) - width / 2, y: H - BOTTOM - tall, width, height: tall })));
  });
  return chart;
}

export function legend(names) {
  return el("ul", { class: "legend" }, names.map(([name, kind]) =>
    el("li", {}, svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" },
      svg("rect", { class: kind.startsWith("h") ? kind : `bar ${kind}`, width: 12, height: 12, rx: 2 })), name)));
}

const SHADES = 5;

// Shades of a scale that starts at zero: twice the colour is twice the value, and values that are close look alike.
function shades(numbers, show) {
  const top = Math.max(...numbers, 0) || 1;
  return {
    of: (value) => `h${Math.min(SHADES - 1, Math.floor((SHADES * value) / top))}`,
    key: Array.from({ length: SHADES }, (_, at) => [`${show((top * at) / SHADES)} to ${show((top * (at + 1)) / SHADES)}`, `h${at}`]),
  };
}

const ENTRIES = {
  loss: (measure) => ({ value: (text) => Number(text) / 1e12, show: measure.show }),
  distance: () => ({ value: Number, show: (value) => (value === 0 ? "0" : value.toExponential(2)) }),
  vouch: () => ({ value: Number, show: (value) => (value === 1 ? "yes" : "no") }),
};

// Validators by workers, with a key of the shades.
export function heat(scores, measure, cellLink) {
  const entries = ENTRIES[scores.kind](measure);
  const isVouch = scores.kind === "vouch";
  const numbers = scores.validators.flatMap((row) => row.entries).filter((entry) => entry !== null).map(entries.value);
  const scale = shades(numbers, entries.show);
  const shade = (value) => (isVouch ? (value === 1 ? "h1" : "none") : scale.of(value));
  const cell = (entry) => (entry === null
    ? el("td", { class: "none", title: "not available or invalid" }, "n/a")
    : el("td", { class: shade(entries.value(entry)) }, entries.show(entries.value(entry))));
  const workers = scores.workers.map((worker) => el("th", { scope: "col" }, cellLink(worker)));
  const rows = scores.validators.map((row) => el("tr", {},
    el("th", { scope: "row" }, cellLink(row.validator)),
    row.revealed
      ? [el("td", { class: "own" }, row.head === null ? "n/a" : measure.show(Number(row.head) / 1e12)), row.entries.map(cell)]
      : el("td", { class: "none", colspan: scores.workers.length + 1 }, row.committed ? "committed, not revealed" : "no scores")));
  const body = el("table", { class: "heat" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "validator"), el("th", { scope: "col" }, "head"), workers)),
    el("tbody", {}, rows));
  return [scrolling("Scores, validators by workers", body), isVouch || !numbers.length ? null : legend(scale.key)];
}

// rows: [{name, values}], a fraction or null for each round. The newest rounds; what came before is in the rounds' own pages.
export function weights(label, rounds, rows) {
  const from = Math.max(0, rounds.length - 12);
  const scale = shades(rows.flatMap((row) => row.values.slice(from)).map((value) => value ?? 0), (value) => percent(value, 0));
  const cell = (value) => (value === null ? el("td", { class: "none", title: "no update that counts" }, "–") : el("td", { class: scale.of(value) }, shareText(value)));
  const body = el("table", { class: "heat" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "outsider"), rounds.slice(from).map((round) => el("th", { scope: "col" }, `round ${round}`)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name), row.values.slice(from).map(cell)))));
  return [scrolling(label, body), legend(scale.key)];
}

export function bars(items) {
  const most = Math.max(...items.map((item) => item.fraction), 1e-9);
  return el("dl", { class: "bars" }, items.flatMap((item) => [
    el("dt", {}, item.name),
    el("dd", {}, el("progress", { max: most, value: item.fraction, "aria-label": `${item.label}: ${percent(item.fraction)}` })),
    el("dd", { class: "value" }, shareText(item.fraction)),
  ]));
}

// A share that is not nothing is not written as nothing.
export const shareText = (fraction) => percent(fraction, fraction > 0 && fraction < 0.001 ? 3 : 1);
