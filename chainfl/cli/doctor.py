"""`chainfl doctor`: what is installed here, and what to do about what is not."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final

import click

from chainfl import DISTRIBUTION, __version__, tools
from chainfl.cli.output import Answer, finish, json_option, print_table
from chainfl.errors import InputError, ToolMissingError
from chainfl.report import Report, report, version_line

IPFS_API: Final = "http://127.0.0.1:5001"
# ipfs-daemon takes any argument as an order to start, so it is not asked for its version.
SPEAKS_VERSION: Final = {"anvil", "forge", "solc", "node", "geth", "chromium"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for: is it there, what was seen, what it is for, and how to get it."""

    name: str
    found: bool
    detail: str
    purpose: str
    remedy: str


@click.command(
    short_help="Say what is installed and what to do about the rest.",
    epilog="Example: chainfl doctor --require anvil --require torch",
)
@click.option("--require", "required", multiple=True, metavar="NAME", help="End with 6 when NAME is missing.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "mps", "cpu"]),
    help="Also train and score a little there, and compare with the CPU.",
)
@json_option
@click.pass_obj
def doctor(answer: Answer, required: tuple[str, ...], device: str | None, as_json: bool) -> int:
    """Look for torch, anvil, forge, solc, node, IPFS, geth, Chromium and data.

    What is missing comes with what to do about it. An installed chainfl audits without any of them.
    """
    checked = _checked(device) if device is not None else {}
    findings = examine()
    metrics: dict[str, object] = {"version": __version__, "findings": [asdict(each) for each in findings]}
    outcome = report(
        "doctor",
        metrics | checked,
        ok=findings[0].found and checked.get("device", {}).get("parameters_come_back", True),
        seconds=answer.seconds,
    )
    return finish(_with_required(outcome, findings, required), as_json, partial(_show, findings))


def _checked(device: str) -> dict[str, dict[str, Any]]:
    """What a device shows when something is trained and scored on it."""
    tools.require_package("torch", "train")
    from chainfl.learning.selfcheck import check_device

    return {"device": asdict(check_device(device))}


def examine() -> list[Finding]:
    """All findings, in the order they are shown; the slow questions are asked side by side."""
    questions: list[Callable[[], Finding]] = [_packages, _torch]
    questions += [partial(_program, tool) for tool in tools.TOOLS.values()]
    questions += [_ipfs_api, _data]
    with ThreadPoolExecutor(max_workers=len(questions)) as pool:
        return list(pool.map(lambda ask: ask(), questions))


def _with_required(outcome: Report, findings: Sequence[Finding], required: Sequence[str]) -> Report:
    known = {each.name: each for each in findings}
    unknown = [name for name in required if name not in known]
    if unknown:
        raise InputError(f"--require {unknown[0]}: unknown; known: {', '.join(known)}")
    missing = [known[name] for name in required if not known[name].found]
    if not missing:
        return outcome
    text = "; ".join(f"{each.name} is missing: {each.remedy}" for each in missing)
    return replace(outcome, ok=False, error=ToolMissingError(text))


def _show(findings: Sequence[Finding], outcome: Report) -> None:
    click.echo(version_line())
    print_table(
        ("", "what", "found", "for"),
        [("ok" if each.found else "--", each.name, each.detail, each.purpose) for each in findings],
    )
    for each in findings:
        if not each.found:
            click.echo(f"{each.name}: {each.remedy}")
    if "device" in outcome.metrics:
        click.echo(_device_line(outcome.metrics["device"]))
    if outcome.error is not None:
        click.echo(f"error: {outcome.error}", err=True)


def _device_line(found: Any) -> str:
    back = "come back as they went" if found["parameters_come_back"] else "DO NOT COME BACK AS THEY WENT"
    score = "the same" if found["same_score"] else f"{found['score_difference']} x 10^-12 apart"
    return (
        f"{found['device']}: {found['trained_a_second']:,.0f} samples a second trained, "
        f"{found['scored_a_second']:,.0f} scored; parameters {back}; beside the CPU, "
        f"{found['same_parameters']:,} of {found['parameters']:,} parameters of an update are the same integers, "
        f"the others at most {found['largest_difference']} steps apart; its loss is {score}"
    )


def _packages() -> Finding:
    found = partial(Finding, "packages", purpose="everything", remedy=tools.pip_install())
    if not _is_installed(DISTRIBUTION):
        return found(found=True, detail=f"not looked for: {DISTRIBUTION} runs here without being installed")

    lines = metadata.requires(DISTRIBUTION) or []
    # What only some extras or some Pythons ask for can be gone without.
    names = [_requirement_name(line) for line in lines if ";" not in line]
    missing = [name for name in names if not _is_installed(name)]
    detail = f"missing: {', '.join(missing)}" if missing else f"all {len(names)} that chainfl needs"
    return found(found=not missing, detail=detail)


def _requirement_name(line: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]


def _is_installed(distribution: str) -> bool:
    return next(iter(metadata.distributions(name=distribution)), None) is not None


def _torch() -> Finding:
    found = partial(Finding, "torch", purpose="training and scoring", remedy=tools.pip_install("train"))
    if util.find_spec("torch") is None:
        return found(found=False, detail="not installed")
    try:
        import torch
    except (ImportError, OSError) as error:
        return found(found=False, detail=f"does not load: {str(error).splitlines()[0]}")
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return found(found=True, detail=f"{torch.__version__} on {device}, {torch.get_num_threads()} threads")


def _program(tool: tools.Tool) -> Finding:
    found = partial(Finding, tool.name, purpose=tool.purpose, remedy=f"{tool.remedy}, or set {tool.variable}")
    try:
        path = tools.find(tool.name)
    except InputError as error:
        return found(found=False, detail=str(error))
    if path is None:
        return found(found=False, detail="not found")
    if tool.name not in SPEAKS_VERSION:
        return found(found=True, detail=_short(path))
    version = _version(path)
    if version is None:
        return found(found=False, detail=f"does not run: {_short(path)}")
    return found(found=True, detail=f"{version} {_short(path)}")


def _version(path: Path) -> str | None:
    """What a program says of its version; None where it does not start or fails."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL
        )
    except OSError:
        return None
    except subprocess.TimeoutExpired:
        return "(does not answer --version)"
    return version_in(done.stdout) if done.returncode == 0 else None


def version_in(text: str) -> str:
    """The first word of a program's answer that looks like a version, such as `1.7.1` or `v20.1.0`."""
    words = text.replace(",", " ").split()
    return next(
        (word for word in words if word.lstrip("v")[:1].isdigit() and "." in word), "(unknown version)"
    )


def _short(path: Path) -> str:
    root = tools.checkout()
    if root is not None and path.is_relative_to(root):
        parts = path.relative_to(root).parts
        return "/".join(parts[:2] if "node_modules" in parts else parts)
    return str(path)


def _ipfs_api() -> Finding:
    url = os.environ.get("CHAINFL_IPFS_API", IPFS_API)
    found = partial(
        Finding,
        "ipfs-api",
        purpose="sharing models with others",
        remedy="start a daemon (ipfs daemon), or set CHAINFL_IPFS_API to its address",
    )

    try:
        request = urllib.request.Request(f"{url}/api/v0/version", method="POST")
        with urllib.request.urlopen(request, timeout=2) as response:
            answer = json.load(response)
    except (OSError, ValueError, urllib.error.URLError):
        return found(found=False, detail=f"no daemon answers at {url}")

    version = answer.get("Version", "(unknown version)") if isinstance(answer, dict) else "(unknown version)"
    return found(found=True, detail=f"{version} at {url}")


def _data() -> Finding:
    folder = os.environ.get("CHAINFL_DATA")
    found = partial(
        Finding, "data", purpose="the full data sets", remedy="set CHAINFL_DATA to the folder that holds them"
    )
    if not folder:
        return found(found=False, detail="CHAINFL_DATA is not set")
    if not Path(folder).is_dir():
        return found(found=False, detail=f"CHAINFL_DATA is {folder}, which is not a folder")
    names = sorted(each.name for each in Path(folder).iterdir() if each.is_dir())
    return found(found=True, detail=f"{folder}: {', '.join(names) or 'empty'}")
