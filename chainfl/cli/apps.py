"""`chainfl new` and `chainfl app`: learning of one's own, from a template to a rehearsal."""

import shlex
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final

import click

from chainfl.cli.output import finish, json_option, print_table
from chainfl.errors import AppError, InputError
from chainfl.report import Report, narrate, report

TEMPLATES: Final = ("vision", "text", "tabular", "lora")
FIRST: Final = {"lora": "python NAME/make_base.py"}
"""What a template needs before it runs: adapters need a base model, and this makes a small one."""


@click.command(short_help="Start an app of your own.", epilog="Example: chainfl new digits --template vision")
@click.argument("name", type=click.Path(path_type=Path))
@click.option(
    "--template",
    type=click.Choice(TEMPLATES),
    default="vision",
    show_default=True,
    help="What to start from: pictures, characters, numbers in a table, or adapters of a transformer.",
)
@json_option
def new(name: Path, template: str, as_json: bool) -> int:
    """Make the folder NAME with an app that runs at once, a test of it, and a README."""
    if name.exists():
        raise InputError(f"{name} exists already: give another name")

    source = resources.files("chainfl") / "templates"
    step = FIRST.get(template, "").replace("NAME", shlex.quote(str(name)))
    try:
        name.mkdir(parents=True)
        for folder in ("common", template):
            for file in (source / folder).iterdir():
                if file.is_file():
                    text = file.read_text(encoding="utf-8").replace("NAME", shlex.quote(str(name)))
                    text = text.replace("FIRST\n", f"{step}\n" if step else "")
                    (name / file.name).write_text(text, encoding="utf-8")
    except OSError as error:
        # Half a folder would be in the way of the next try.
        shutil.rmtree(name, ignore_errors=True)
        raise InputError(f"{name}: {error.strerror}") from None

    made = {"folder": str(name), "template": template, "app": str(name / "app.py"), "first": step or None}
    answer = report("new", made)
    return finish(answer, as_json, _show_new)


def _show_new(answer: Report) -> None:
    app = shlex.quote(str(answer.metrics["app"]))
    click.echo(f"made {answer.metrics['app']}, a test of it and a README; next:")
    if answer.metrics["first"]:
        click.echo(answer.metrics["first"])
    click.echo(f"chainfl simulate --app {app} --participants 8 --committee 3 --rounds 3")
    click.echo(f"chainfl app check {app}")


@click.group(epilog="Example: chainfl app check digits/app.py")
def app() -> None:
    """Check an app before it takes part in a task."""


@app.command(
    short_help="Try an app and report what would fail.",
    epilog="Example: chainfl app check digits/app.py",
)
@click.argument("file")
@click.option("--dataset", help="What its data() is given.")
@click.option("--app-config", help="Values of its config, such as rate=0.01,batch=16.")
@click.option(
    "--samples", type=click.IntRange(min=1), default=256, show_default=True, help="Samples to try it on."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), default=60, show_default=True,
    help="How long a call may take.",
)  # fmt: skip
@click.option(
    "--scale",
    type=click.IntRange(0, 31),
    default=20,
    show_default=True,
    help="Bits after the point on chain.",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the first model."
)
@json_option
def check(
    file: str,
    dataset: str | None,
    app_config: str | None,
    samples: int,
    seconds: float,
    scale: int,
    threads: int,
    seed: int,
    as_json: bool,
) -> int:
    """Rehearse FILE, or an installed package.module: shapes, numbers, determinism, time, memory.

    Each line is ok, a note, or wrong; what is wrong would fail in a round.
    """
    from chainfl.learning.app import load_app
    from chainfl.learning.appconfig import parse_changes
    from chainfl.learning.calls import time_limit
    from chainfl.learning.check import RUN, WRONG, Trial, check_app

    with time_limit(seconds, "import"):
        found = load_app(file, parse_changes(app_config), seed)
    findings = list(check_app(found, Trial(dataset, samples, seconds, scale, threads)))
    metrics = {
        "app": found.name,
        "digest": found.digest,
        "findings": [{"check": each.check, "verdict": each.verdict, "text": each.text} for each in findings],
    }
    answer = report("app-check", metrics, ok=all(each.verdict != WRONG for each in findings), seed=seed)
    rows = [(each.check, each.verdict, each.text) for each in findings]

    # As any other command that ran into it would: one line on stderr, and the exit code of a wrong input.
    failed = [each.text for each in findings if each.check == RUN]
    if failed:
        answer = replace(answer, error=AppError(failed[0]))
    code = finish(answer, as_json, lambda _: _show_check(found.digest, rows))
    for text in failed:
        narrate(f"error: {text}")
    return code


def _show_check(digest: str, rows: list[tuple[str, str, str]]) -> None:
    print_table(("check", "verdict", "what was seen"), rows)
    click.echo(f"digest: {digest}")
