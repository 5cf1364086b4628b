// The audit of a round: asked for, waited for, and shown as a numbered list.

import { get, Problem } from "./api.js";
import { card, command, el, quiet, tag, tone } from "./dom.js";
import { short } from "./format.js";
import { fromManifest, tensorAt } from "./site.js";

const verdicts = new Map();

export function auditCard(task, number) {
  const name = `${task.task}/${number}`;
  const known = verdicts.get(name);
  const body = el("div", { "aria-live": "polite" }, known ? auditView(task, known) : quiet("Redoing the round…"));
  runAudit(task, number, body);
  return card("Audit", "The round redone by this server from the chain's events and the stored bytes alone.", body);
}

async function runAudit(task, number, body) {
  const path = `/blocks/${task.task}/${number}/audit?wait=20`;
  try {
    let audit = await get(path);
    while (audit.state === "running" && body.isConnected) audit = await get(path);
    verdicts.set(`${task.task}/${number}`, audit);
    body.replaceChildren(...auditView(task, audit));
  } catch (error) {
    if (!(error instanceof Problem || error instanceof TypeError)) throw error;
    body.replaceChildren(el("p", { class: "error" }, error.message));
  }
}

const VERDICTS = { mismatch: "Something is not as it should be", "data unavailable": "Not everything could be checked" };

function auditView(task, audit) {
  const all = audit.findings.length;
  const good = audit.findings.filter((finding) => finding.verdict === "ok").length;
  const said = audit.verdict === "ok" ? `All ${all} checks hold` : `${VERDICTS[audit.verdict]}: ${good} of ${all} checks hold`;
  return [
    el("p", { class: "verdict" }, tag(audit.verdict), el("span", {}, `${said}${audit.outcome === "open" ? " so far" : ""}. It took ${audit.seconds.toFixed(2)} s.`)),
    el("ol", { class: "checks" }, audit.findings.map((finding) => el("li", { class: tone(finding.verdict) },
      el("span", { class: "n" }, String(finding.number)), el("span", {}, finding.check), el("span", {}, tag(finding.verdict)),
      el("span", { class: "why" }, finding.verdict === "ok" ? okText(finding) : `expected ${finding.expected}; found ${finding.found}`)))),
    audit.challenge ? el("p", { class: "error" }, "The standing proposal is wrong at parameter ", parameterName(task, audit.challenge.position), ": anyone can prove it now.") : null,
    good < all ? null : el("p", { class: "hint own" }, "Do not take this server's word for it. The same on your machine: ", command(`chainfl audit verify --task ${audit.task} --round ${audit.round} --store …`)),
  ].filter(Boolean);
}

// A parameter by its position and, where the manifest can be read, by its tensor.
export const parameterName = (task, position) => el("span", {}, position.toLocaleString("en"),
  fromManifest(task, el("span", {}), (manifest) => {
    const tensor = tensorAt(manifest, position);
    return tensor ? [" (", el("code", {}, tensor), ")"] : [];
  }));

const CHECKED = {
  draw: "the roles follow from stakes and the seed", commitments: "every reveal opens what was sealed before", inclusion: "the committee's vouching gives the same updates",
  scores: "the committee's statistic is the same", shares: "the same integers come out of the scores", "next committee": "the election comes out the same",
  "model root": "combining the updates again gives the same model", rewards: "everybody was credited what the rules give",
  head: "the head after the round is what the outcome says", "block record": "the record agrees with the ledger", index: "the index agrees with the events",
};

function okText(finding) {
  const more = finding.check === "update roots" ? finding.found : "";
  return [CHECKED[finding.check] ?? short(finding.expected, 60, 10), more].filter(Boolean).join(": ");
}
