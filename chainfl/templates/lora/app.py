"""Adapters of a transformer: the base stays frozen on each participant's disk, only LoRA's small matrices are trained.

The base is a folder in Hugging Face's format: `base` beside this file, or where LORA_BASE says. A small one to try
with: python NAME/make_base.py
"""

import os
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import chainfl

BASE = Path(os.environ.get("LORA_BASE", Path(__file__).with_name("base")))
LENGTH = 32  # tokens of a sample


@dataclass
class Config:
    """What a sponsor may set: --app-config rate=0.001,epochs=2."""

    rate: float = 3e-3
    epochs: int = 1
    batch: int = 8


config = Config()


def base():
    """The frozen files: the task names each by its SHA-256, and a node compares before it enrols."""
    return [BASE]


def model():
    """The base with fresh adapters; nothing but the adapters is trainable, so nothing else goes on chain."""
    if not BASE.is_dir():
        raise FileNotFoundError(f"no base model in {BASE}: put one there, or run make_base.py")
    adapters = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(AutoModelForCausalLM.from_pretrained(BASE, local_files_only=True), adapters)


def tokens_of(text):
    """The base's own tokens; bytes where it has no tokeniser."""
    if (BASE / "tokenizer.json").exists():
        return AutoTokenizer.from_pretrained(BASE, local_files_only=True)(text)["input_ids"]
    return list(text.encode())


def data(where):
    """Pieces of a text file: most to train on, every tenth held out; without one, sentences that are made up."""
    tokens = tokens_of(Path(where).read_text(encoding="utf-8") if where else made_up())
    pieces = torch.tensor(tokens[: len(tokens) // LENGTH * LENGTH]).view(-1, LENGTH)
    is_held = torch.arange(len(pieces)) % 10 == 0
    return pieces[~is_held], pieces[is_held]


def made_up(sentences=300):
    """A text to start with."""
    rng = random.Random(7)
    who, does, what = (
        ("the miner", "a worker", "one of us"),
        ("trains", "finds", "shows"),
        ("a model", "the head"),
    )
    return "".join(f"{rng.choice(who)} {rng.choice(does)} {rng.choice(what)}. " for _ in range(sentences))


def train(model, samples, ctx):
    """From the head's adapters to an update. torch, numpy and random are seeded; what is returned is for logs."""
    trained = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=ctx.config.rate)
    for _ in range(ctx.config.epochs):
        for rows in torch.randperm(len(samples), generator=ctx.generator).split(ctx.config.batch):
            pieces = samples[rows].to(ctx.device)
            loss = model(input_ids=pieces, labels=pieces).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """The mean loss a token, less is better. In eval mode and without gradients."""
    losses = [model(input_ids=part, labels=part).loss.item() for part in samples.to(ctx.device).split(64)]
    return chainfl.Score(sum(losses) / len(losses))
