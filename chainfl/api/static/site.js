// What the pages have to know of their server, and of tasks beside the chain: manifests, which come from the store.

import { get, Problem } from "./api.js";

let explorer = null;

export async function readSite() {
  explorer = (await get("/about").catch(() => null))?.explorer ?? null;
}

// Where an address, a transaction (tx) or a block can be looked up; null without an explorer.
export const explorerLink = (kind, name) => (explorer ? `${explorer}/${kind}/${name}` : null);

const known = new Map(); // by CID: what a manifest says never changes
let last = Promise.resolve();

// One at a time: a server gives each client a few places for work only.
function manifestOf(task) {
  last = last.then(async () => {
    const cid = task.terms.manifest;
    if (!known.has(cid)) known.set(cid, await get(`/tasks/${task.task}/manifest`));
    return known.get(cid);
  });
  const answer = last;
  last = last.catch(() => null);
  return answer;
}

// Puts into the node what the manifest says, now or when it has come; `failed` shows what cannot be read.
export function fromManifest(task, node, show, failed = () => []) {
  const put = (content) => { node.replaceChildren(...[content].flat(Infinity).filter(Boolean)); return node; };
  const manifest = known.get(task.terms.manifest);
  if (manifest) return put(show(manifest));
  manifestOf(task).then((found) => put(show(found))).catch((error) => {
    if (!(error instanceof Problem || error instanceof TypeError)) throw error;
    put(failed(error.message));
  });
  return node;
}

export const trainsText = (manifest) => (manifest.dataset ? `${manifest.model} on ${manifest.dataset}` : manifest.model);

// The tensor of a parameter, with its place in it: `fc1.weight[3, 17]`. Tensors lie one after the other, in C order.
export function tensorAt(manifest, position) {
  const tensor = manifest.tensors.filter((one) => one.first <= position).at(-1);
  if (!tensor) return null;
  const places = [];
  let rest = position - tensor.first;
  for (const size of [...tensor.shape].reverse()) {
    places.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return rest > 0 ? null : `${tensor.name}[${places.join(", ")}]`;
}
