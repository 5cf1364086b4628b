// All tasks.

import { all } from "./api.js";
import { card, el, table, tag } from "./dom.js";
import { count, eth, measureOf, plural } from "./format.js";
import { taskLink, taskState } from "./links.js";
import { fromManifest, trainsText } from "./site.js";

const COLUMNS = [
  { name: "task" }, { name: "trains" }, { name: "rule" }, { name: "state" }, { name: "head", number: true }, { name: "lies proven" },
  { name: "rewards", number: true }, { name: "participants", number: true },
];

export async function overview() {
  const tasks = await all("/tasks");
  return {
    crumbs: [],
    content: [
      el("h1", {}, "Training tasks"),
      el("p", { class: "lead" }, "Models trained by people who need not trust each other. Every round can be redone by anyone; here is what that shows."),
      tasks.length
        ? el("section", { class: "card" }, table("Tasks", COLUMNS, tasks.map((task) => ({ cells: cells(task) }))))
        : card("No tasks yet", "The factory has not made any. This page fills itself when it does."),
    ],
  };
}

function cells(task) {
  const measure = measureOf(task.terms.rule);
  return [
    el("a", { href: taskLink(task.task) }, `Task ${task.task_id}`),
    fromManifest(task, el("span", {}), trainsText, () => el("span", { class: "quiet" }, "unknown: not found in the store")),
    task.terms.rule, taskState(task),
    task.head_loss === null ? "not scored" : `${measure.name} ${measure.show(task.head_loss)}`,
    task.lies ? tag("lie", plural(task.lies, "lie")) : "none", eth(task.paid), count(task.participants),
  ];
}
