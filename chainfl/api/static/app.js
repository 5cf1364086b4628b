// Where we are, and keeping it fresh: the address names the page, live changes draw it again.

import { follow, Problem } from "./api.js";
import { el } from "./dom.js";
import { accountPage, overview, roundPage, taskPage } from "./pages.js";

const main = document.getElementById("main");
const ROUTES = [
  [/^#?\/?$/, () => overview()],
  [/^#\/task\/(0x[0-9a-f]{40})$/i, (task) => taskPage(task)],
  [/^#\/task\/(0x[0-9a-f]{40})\/round\/([1-9][0-9]{0,8})$/i, (task, number) => roundPage(task, Number(number))],
  [/^#\/task\/(0x[0-9a-f]{40})\/account\/(0x[0-9a-f]{40})$/i, (task, account) => accountPage(task, account)],
];

let shown = 0;

async function show(moved) {
  const turn = ++shown;
  const page = await build();
  if (turn !== shown) return;
  const open = new Set([...main.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent.split(":")[0]));
  const held = moved ? null : document.activeElement?.getAttribute("href");
  document.getElementById("crumbs").replaceChildren(...page.crumbs.flatMap(([name, link], at) => [at ? " › " : "", el("a", { href: link }, name)]));
  document.title = [...page.crumbs.map(([name]) => name).reverse(), "chainfl audit"].join(" · ");
  main.replaceChildren(...page.content.flat(Infinity).filter(Boolean));
  for (const summary of main.querySelectorAll("details > summary")) summary.parentElement.open = open.has(summary.textContent.split(":")[0]);
  if (moved) { scrollTo(0, 0); main.focus({ preventScroll: true }); }
  else if (held) main.querySelector(`[href="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  main.dataset.ready = location.hash || "#/";
}

async function build() {
  try {
    for (const [pattern, page] of ROUTES) {
      const found = location.hash.match(pattern);
      if (found) return await page(...found.slice(1));
    }
    throw new Problem(`There is no page ${location.hash}.`);
  } catch (error) {
    if (!(error instanceof Problem || error instanceof TypeError)) throw error;
    return { crumbs: [], content: [el("section", { class: "card error" }, el("h1", {}, "Not to be had"), el("p", {}, error.message), el("a", { href: "#/" }, "All tasks"))] };
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

const live = document.getElementById("live");
follow(changed, (state) => {
  live.className = `live ${state}`;
  live.querySelector("b").textContent = state === "on" ? "live" : "reconnecting";
});
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", () => show(true));
show(true);
