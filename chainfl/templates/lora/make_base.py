"""Make a small base model to try the adapters with: random weights from a config, nothing is downloaded."""

import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = {"vocab_size": 256, "n_positions": 64, "n_embd": 256, "n_layer": 7, "n_head": 4}


def main(folder):
    """Write the model into the folder."""
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    GPT2LMHeadModel(GPT2Config(**SIZES, **ends)).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("base"))
