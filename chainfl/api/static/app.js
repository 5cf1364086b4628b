// Where we are, and keeping it fresh: the address names the page, live changes draw it again.

import { all, follow, get, Problem } from "./api.js";
import { accountPage } from "./account.js";
import { comparePage } from "./compare.js";
import { countDown, el } from "./dom.js";
import { duration, plural } from "./format.js";
import { overview } from "./overview.js";
import { roundPage } from "./round.js";
import { searchPage, startSearch } from "./search.js";
import { readSite } from "./site.js";
import { taskPage } from "./task.js";

const main = document.getElementById("main");
const ROUTES = [
  [/^#?\/?$/, () => overview()],
  [/^#\/task\/(0x[0-9a-f]{40})$/i, (task) => taskPage(task)],
  [/^#\/task\/(0x[0-9a-f]{40})\/round\/([1-9][0-9]{0,8})$/i, (task, number) => roundPage(task, Number(number))],
  [/^#\/task\/(0x[0-9a-f]{40})\/compare\/([1-9][0-9]{0,8})\/([1-9][0-9]{0,8})$/i, (task, one, other) => comparePage(task, Number(one), Number(other))],
  [/^#\/search\/(.+)$/, (text) => searchPage(text)],
  [/^#\/task\/(0x[0-9a-f]{40})\/account\/(0x[0-9a-f]{40})$/i, (task, account) => accountPage(task, account)],
];

let shown = 0;

async function show(moved) {
  const turn = ++shown;
  const page = await build();
  if (page === null || turn !== shown) return;
  const before = moved ? null : pageState();
  document.getElementById("crumbs").replaceChildren(...page.crumbs.flatMap(([name, link], at) => [at ? " › " : "", el("a", { href: link }, name)]));
  document.title = [...page.crumbs.map(([name]) => name).reverse(), "chainfl audit"].join(" · ");
  main.replaceChildren(...page.content.flat(Infinity).filter(Boolean));
  if (moved) { scrollTo(0, 0); main.focus({ preventScroll: true }); }
  else restore(before);
  main.dataset.ready = location.hash || "#/";
}

// What a person has done to a page, which a live change must not undo: what is open, chosen, scrolled and in focus.
const summaryOf = (details) => details.querySelector("summary").textContent.split(":")[0];
const labelOf = (node) => node.getAttribute("href") ?? node.getAttribute("aria-label");

function pageState() {
  const held = main.contains(document.activeElement) ? labelOf(document.activeElement) : null;
  return {
    held,
    open: new Set([...main.querySelectorAll("details[open]")].map(summaryOf)),
    chosen: new Map([...main.querySelectorAll("select")].map((select) => [labelOf(select), select.value])),
    scrolled: new Map([...main.querySelectorAll(".scroll")].map((box) => [labelOf(box), box.scrollLeft])),
  };
}

function restore({ held, open, chosen, scrolled }) {
  for (const details of main.querySelectorAll("details")) details.open = open.has(summaryOf(details));
  for (const select of main.querySelectorAll("select")) select.value = chosen.get(labelOf(select)) ?? select.value;
  for (const box of main.querySelectorAll(".scroll")) box.scrollLeft = scrolled.get(labelOf(box)) ?? 0;
  if (held) [...main.querySelectorAll("[href], [aria-label]")].find((node) => labelOf(node) === held)?.focus({ preventScroll: true });
}

// A task can be named by its number too: the address then says which one is meant.
async function nameByAddress() {
  const found = location.hash.match(/^#\/task\/([1-9][0-9]{0,8})(?=\/|$)/);
  if (!found) return;
  const task = (await all("/tasks")).find((one) => one.task_id === Number(found[1]));
  if (!task) throw new Problem(`There is no task ${found[1]}.`);
  history.replaceState(null, "", location.hash.replace(found[0], `#/task/${task.task}`));
}

async function build() {
  try {
    await nameByAddress();
    for (const [pattern, page] of ROUTES) {
      const found = location.hash.match(pattern);
      if (found) return await page(...found.slice(1));
    }
    throw new Problem(`There is no page ${location.hash}.`);
  } catch (error) {
    if (!(error instanceof Problem || error instanceof TypeError)) throw error;
    return { crumbs: [], content: [el("section", { class: "card error" }, el("h1", {}, "Not found"), el("p", {}, error.message), el("a", { href: "#/" }, "All tasks"))] };
  }
}

function isConcerned(change) {
  if (change === null) return true;
  const here = location.hash.match(/^#\/task\/(0x[0-9a-f]{40})(?:\/round\/(\d+))?/i);
  if (!here) return true;
  if (here[1].toLowerCase() !== change.task) return false;
  return !here[2] || Number(here[2]) >= change.first_round - 1;
}

let waiting = null;
let first = true;
function changed(change) {
  if (first) { first = false; return; }
  if (!isConcerned(change) || waiting) return;
  waiting = setTimeout(() => { waiting = null; show(false); }, 150);
}

// "Live" is said only while the server itself has read the newest block.
const live = document.getElementById("live");
const HEALTH_EVERY = 5000;
let connected = false;

async function tellLive() {
  const health = connected ? await get("/health").catch(() => null) : null;
  const behind = health?.blocks_behind ?? 0;
  const [mark, text] = !connected ? ["off", "reconnecting"]
    : !health ? ["off", "the server does not answer"]
      : health.status !== "ok" || behind > 2 ? ["off", `behind: ${plural(behind, "block")}, ${duration(Math.round(health.seconds_behind ?? 0))}`]
        : ["on", "live"];
  live.className = `live ${mark}`;
  if (live.querySelector("b").textContent !== text) live.querySelector("b").textContent = text;
}

follow(changed, (state) => { connected = state === "on"; tellLive(); });
setInterval(tellLive, HEALTH_EVERY);
setInterval(countDown, 1000);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", () => show(true));
startSearch(document.getElementById("search"));
readSite().then(() => show(true));
