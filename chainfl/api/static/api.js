// Reads the API. The browser keeps answers and their ETags; what has not changed costs a 304.

export class Problem extends Error {}

export async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({ detail: `${path}: ${answer.status}` }));
    throw new Problem(problem.detail);
  }
  return answer.json();
}

export async function all(path, most = 2000) {
  const items = [];
  for (let after = null; items.length < most;) {
    const page = await get(`${path}${path.includes("?") ? "&" : "?"}limit=500${after === null ? "" : `&after=${after}`}`);
    items.push(...page.items);
    if (page.next === null) break;
    after = page.next;
  }
  return items;
}

// Calls `changed(change)` for every change, and with null when everything should be read anew.
export function follow(changed, state) {
  const stream = new EventSource("/live");
  stream.addEventListener("hello", () => { state("on"); changed(null); });
  stream.addEventListener("change", (event) => changed(JSON.parse(event.data)));
  stream.addEventListener("resync", () => changed(null));
  stream.addEventListener("error", () => state("off"));
}
