"""`chainfl model`: take a trained model out of a task, with where it comes from, and prove that it is that."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chainfl.cli.chain_options import (
    TaskOnChain,
    limit_options,
    rpc_options,
    store_option,
    task_options,
)
from chainfl.cli.output import finish, json_option, print_table
from chainfl.codec.text import hex_of, parse_hex
from chainfl.errors import InputError
from chainfl.limits import Limits
from chainfl.report import Report, report

if TYPE_CHECKING:
    from chainfl.chain.keys import LocalSigner
    from chainfl.codec.model_file import ModelFile
    from chainfl.learning.app import App


@click.group(epilog="Example: chainfl model export --task 0x… --store dir:./store --out model.safetensors")
def model() -> None:
    """Take trained models out, and prove what they are."""


@model.command(
    short_help="Write a round's model to a file.",
    epilog="Example: chainfl model export --task 0x… --store dir:./store --round 3 --out model.safetensors",
)
@task_options
@store_option
@click.option(
    "--round", "number", type=click.IntRange(min=0), help="The round whose model is wanted [the head's]."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write, such as model.safetensors.",
)
@click.option(
    "--keystore",
    type=click.Path(path_type=Path),
    help="Sign the statement with this key (chainfl keys new); plain without it.",
)
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="File whose first line opens the keystore."
)
@click.option("--app", help="The task's app, which --peft and --onnx build the model with.")
@click.option("--dataset", help="With --onnx: what the app's data() is given; two of its samples are traced.")
@click.option(
    "--peft", type=click.Path(path_type=Path), help="Write adapters to this folder too, as PEFT reads them."
)
@click.option("--onnx", type=click.Path(path_type=Path), help="Write the model to this file too, as ONNX.")
@limit_options
@json_option
def export(
    task: TaskOnChain,
    store: str,
    number: int | None,
    out: Path,
    keystore: Path | None,
    password_file: Path | None,
    app: str | None,
    dataset: str | None,
    peft: Path | None,
    onnx: Path | None,
    limits: Limits,
    as_json: bool,
) -> int:
    """Write the model of a final round as safetensors, from chain and store alone, and a statement of its origin."""
    from chainfl.store.address import open_store
    from chainfl.tools import require_package
    from chainfl.workflows.model import export_model, write_export

    if app is None and (peft or onnx or dataset):
        raise InputError("--peft and --onnx need the task's app: give --app FILE")
    if app is not None:
        require_package("torch", "train")  # before a model is fetched, not after
    signer = _signer(keystore, password_file)
    reader, blobs = task.open_reader(), open_store(store)
    exported = export_model(reader, blobs, out.name, number, signer, limits)
    beside = write_export(exported, out)

    # After the file that can be proven: the other formats are for use, and no proof covers them.
    if app is not None:
        from chainfl.blobs import get_manifest
        from chainfl.learning.app import load_app
        from chainfl.learning.taskapp import settings_of

        found = load_app(app, *settings_of(get_manifest(blobs, reader.task.config.manifest)))
        _write_more(found, exported.file, dataset, peft, onnx)

    metrics = {
        "file": str(out),
        "statement": str(beside),
        **({"peft": str(peft)} if peft is not None else {}),
        **({"onnx": str(onnx)} if onnx is not None else {}),
        "bytes": len(exported.data),
        "signed_by": hex_of(signer.address) if signer is not None else None,
        **_described(exported.file),
    }
    return finish(report("model-export", metrics), as_json, _show)


def _write_more(
    app: "App", file: "ModelFile", dataset: str | None, peft: Path | None, onnx: Path | None
) -> None:
    """The same model in the formats of other libraries, built by its app."""
    from chainfl.learning.exported import write_onnx, write_peft

    if peft is not None:
        write_peft(app, file, peft)
    if onnx is not None:
        write_onnx(app, file, dataset, onnx)


def _signer(keystore: Path | None, password_file: Path | None) -> "LocalSigner | None":
    if keystore is None:
        if password_file is not None:
            raise InputError("--password-file goes with --keystore")
        return None
    from chainfl.chain.keys import read_password, unlock

    return unlock(keystore, read_password(password_file))


@model.command(
    short_help="Prove what a file holds.",
    epilog="Example: chainfl model verify model.safetensors --bundle task.car --block-hash 0x…",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--statement",
    type=click.Path(path_type=Path),
    help="Its statement [FILE.intoto.json, where there is one].",
)
@click.option(
    "--bundle", type=click.Path(path_type=Path), help="Prove it by this file (chainfl audit export)."
)
@click.option(
    "--block-hash", help="With --bundle: the block it has to rest on, from a source that you trust."
)
@click.option("--online", is_flag=True, help="Prove it by the chain that --rpc-url serves.")
@rpc_options
@click.option(
    "--from-block",
    type=int,
    default=0,
    envvar="CHAINFL_FROM_BLOCK",
    help="With --online: start reading here.",
)
@json_option
def verify(
    file: Path,
    statement: Path | None,
    bundle: Path | None,
    block_hash: str | None,
    online: bool,
    rpc_url: str,
    chain_id: int | None,
    from_block: int,
    as_json: bool,
) -> int:
    """Rebuild a model file's root and compare it with its statement, and with a bundle or a chain that proves it."""
    from chainfl.workflows.model import verify_model

    if (bundle is None) != (block_hash is None):
        raise InputError(
            "--bundle and --block-hash go together: a bundle proves nothing without a block that you trust"
        )
    if online and bundle is not None:
        raise InputError("--online and --bundle: give one of them")

    # Which chain or bundle is meant decides what is proven; the file alone proves only its own root.
    trusted = parse_hex(block_hash, 32, "a block's hash", "--block-hash") if block_hash is not None else None
    reader = None
    if online:
        task = hex_of(_read_file(file).about.task)
        reader = TaskOnChain(rpc_url, chain_id, task, from_block).open_reader()

    done = verify_model(file, statement=statement, bundle=bundle, block_hash=trusted, reader=reader)
    signed = done.statement
    metrics = {
        "file": str(file),
        "statement": "agrees" if signed is not None else None,
        "signed_by": hex_of(signed.signed_by)
        if signed is not None and signed.signed_by is not None
        else None,
        "proven_by": done.proven_by,
        **_described(done.file),
    }
    return finish(report("model-verify", metrics), as_json, _show)


@model.command(
    short_help="Judge a file by an app and data of your own.",
    epilog="Example: chainfl model score model.safetensors --app digits/app.py --dataset mine.npz",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--app", required=True, help="The app whose model it is: a Python file, or package.module.")
@click.option("--app-config", help="Values of its config, such as rate=0.01,batch=16.")
@click.option("--dataset", help="What its data() is given; the model is judged on what that holds out.")
@click.option("--samples", type=click.IntRange(min=0), default=0, help="Judge on so many samples [all].")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch.")
@json_option
def score(
    file: Path,
    app: str,
    app_config: str | None,
    dataset: str | None,
    samples: int,
    threads: int,
    as_json: bool,
) -> int:
    """Score an exported model as a validator would, on samples of your own; nothing is sent anywhere."""
    from chainfl.learning.app import load_app
    from chainfl.learning.appconfig import parse_changes
    from chainfl.learning.exported import score_file

    found = _read_file(file)
    judged = score_file(load_app(app, parse_changes(app_config)), found, dataset, samples, threads)
    is_counted = judged.samples > 0
    metrics = {
        "file": str(file),
        "round": found.about.round,
        "loss": judged.loss,
        "accuracy": judged.accuracy if is_counted else None,
        "samples": judged.samples if is_counted else None,
        "metrics": dict(judged.metrics),
    }
    return finish(report("model-score", metrics), as_json, _show_score)


def _read_file(file: Path) -> "ModelFile":
    from chainfl.workflows.model import read_model

    return read_model(file)


def _show_score(done: Report) -> None:
    shown = dict(done.metrics)
    more: Any = shown.pop("metrics")
    print_table(["", ""], [[key, _text(value)] for key, value in (shown | more).items()])


def _described(file: "ModelFile") -> dict[str, Any]:
    return {
        **{key: value for key, value in file.about.plain().items() if key != "kind"},
        "parameters": len(file.vector),
        "tensors": [{"name": tensor.name, "shape": list(tensor.shape)} for tensor in file.layout.tensors],
    }


def _show(done: Report) -> None:
    metrics = dict(done.metrics)
    tensors: Any = metrics.pop("tensors")
    print_table(["", ""], [[key.replace("_", " "), _text(value)] for key, value in metrics.items()])
    print_table(["tensor", "shape"], [[each["name"], "x".join(map(str, each["shape"]))] for each in tensors])
    if done.name == "model-verify" and metrics["proven_by"] is None:
        click.echo("Not proven by a chain: add --bundle and --block-hash, or --online.", err=True)


def _text(value: object) -> str:
    return "-" if value is None else str(value)
