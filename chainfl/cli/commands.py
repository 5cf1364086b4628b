"""The commands of `chainfl`: where each lives and its line in the help.

Only the module of the command that runs is imported: `chainfl --help` needs no numba, torch or web3.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that is imported when it is called: `module:attribute` and its short help."""

    target: str
    help: str


COMMANDS: Final[dict[str, Entry]] = {
    "app": Entry("chainfl.cli.apps:app", "Check an app before it takes part in a task."),
    "audit": Entry("chainfl.cli.audit:audit", "Redo rounds from chain and blobs alone."),
    "compare": Entry("chainfl.cli.compare:compare", "Show runs side by side."),
    "completion": Entry("chainfl.cli.completion:completion", "Print the completion script of a shell."),
    "compute": Entry("chainfl.cli.compute:compute", "Compute canonical values from your own numbers."),
    "data": Entry("chainfl.cli.data:data", "List data sets and check their files."),
    "demo": Entry("chainfl.cli.demo:demo", "See everything at work on this machine."),
    "deploy": Entry("chainfl.cli.deploy:deploy", "Put the contracts on a chain."),
    "devnet": Entry("chainfl.cli.devnet:devnet", "Run a chain, a task and participants on this machine."),
    "doctor": Entry("chainfl.cli.doctor:doctor", "Say what is installed and what to do about the rest."),
    "experiment": Entry("chainfl.cli.experiment:experiment", "Run campaigns and report on them."),
    "keys": Entry("chainfl.cli.keys:keys", "Make and show encrypted keys."),
    "model": Entry("chainfl.cli.model:model", "Take trained models out, and prove what they are."),
    "new": Entry("chainfl.cli.apps:new", "Start an app of your own."),
    "node": Entry("chainfl.cli.node:node", "Take part in a task."),
    "rules": Entry("chainfl.cli.rules:rules", "List the rules and what a chain proves."),
    "simulate": Entry("chainfl.cli.simulate:simulate", "Play rounds without a chain."),
    "serve": Entry("chainfl.cli.audit_api:serve", "Serve the audit API and its dashboard."),
    "stake": Entry("chainfl.cli.stake:stake", "Bond stake to a task, and take it out."),
    "task": Entry("chainfl.cli.task:task", "Create and show tasks."),
    "watch": Entry("chainfl.cli.watch:watch", "Follow a task and convict liars."),
}
