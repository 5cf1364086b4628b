// Finding anything by its address, hash, CID or number.

import { get } from "./api.js";
import { card, el, table } from "./dom.js";
import { accountLink, roundLink, taskLink } from "./links.js";

const NAME = /^(0x[0-9a-f]{40}|0x[0-9a-f]{64}|b[a-z2-7]{58}|[1-9][0-9]{0,8})$/;
const WANTED = "Give an address (0x and 40 digits), a transaction or root (0x and 64 digits), a CID, or the number of a task.";

function linkOf(hit, name) {
  if (hit.what === "participant") return accountLink(hit.task, name);
  return hit.round === null ? taskLink(hit.task) : roundLink(hit.task, hit.round);
}

export async function searchPage(asked) {
  const name = decodeURIComponent(asked).trim().toLowerCase();
  const hits = NAME.test(name) ? (await get(`/search?q=${name}`)).items : null;
  if (hits?.length === 1) {
    location.replace(linkOf(hits[0], name));
    return null; // the page that it leads to is drawn instead
  }
  return {
    crumbs: [["Search", `#/search/${encodeURIComponent(name)}`]],
    content: [
      el("h1", {}, "Search"), el("p", { class: "lead mono" }, name),
      hits === null ? card("Not a name", WANTED)
        : hits.length ? card("Found", null, table("Found", [{ name: "what" }, { name: "task" }], hits.map((hit) => ({ cells: [el("a", { href: linkOf(hit, name) }, hit.text), `Task ${hit.task_id}`] }))))
          : card("Not found", "Nothing that this server has read from the chain has this name. Hashes of EVM blocks are not searched."),
    ],
  };
}

export function startSearch(form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = form.elements.q.value.trim();
    if (text) location.hash = `#/search/${encodeURIComponent(text)}`;
  });
}
