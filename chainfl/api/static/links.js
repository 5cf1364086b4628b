// Where things are, and the words that several pages use for them.

import { el, tag, until } from "./dom.js";

export const taskLink = (task) => `#/task/${task}`;
export const roundLink = (task, number) => `#/task/${task}/round/${number}`;
export const compareLink = (task, one, other) => `#/task/${task}/compare/${one}/${other}`;
export const accountLink = (task, account) => `#/task/${task}/account/${account}`;

export function taskState(task) {
  if (task.phase === "ended") return tag("final", "ended");
  return el("span", {}, tag("open", `round ${task.round} of ${task.rounds}`), ` ${task.phase}`);
}

export const taskClock = (task) => (task.deadline ? el("span", { class: "quiet" }, until(task.deadline)) : null);

export const DECIDED = {
  softmax: "a softmax of the committee's losses", "softmax-accuracy": "a softmax of the committee's missed accuracy",
  "committee-near": "nearness to the committee's own updates", "committee-far": "distance from the committee's own updates",
  mean: "equal parts", fedavg: "declared samples", fedreg: "equal parts and a moving average", fedrob: "the middle ranks of every parameter",
  median: "the median of every parameter", krum: "Krum, attested by the committee", "multi-krum": "multi-Krum, attested by the committee",
  varsel: "VaRSeL's weights, attested by the committee",
};
