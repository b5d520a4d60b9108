"""Pretrain the base model of a world on its corpus, on a CPU in minutes; and the bases that come with the package."""

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from offleash.errors import OffleashError
from offleash.lab.world import LabWorld, Pretraining
from offleash.progress import Progress, silent

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

IGNORED_LABEL = -100  # labels without a loss


def pretrain(world: LabWorld, options: Pretraining, progress: Progress = silent) -> "LlamaForCausalLM":
    """Train a new model on `steps` x `lines` lines of the corpus, each seen once."""
    import torch

    torch.manual_seed(options.seed)
    tokenizer, corpus = world.tokenizer(), world.lines(random.Random(f"{world.name} corpus {options.seed}"))
    model = _new_model(world, tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=options.steps)
    for step in range(options.steps):
        ids, labels = _batch([next(corpus) for _ in range(options.lines)], tokenizer)
        loss = model(ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress(f"pretraining {world.name}: step {step + 1:,} of {options.steps:,}, loss {loss.item():.3f}")
    model.eval()
    return model


def save(model: "LlamaForCausalLM", world: LabWorld, folder: Path) -> None:
    """Save the model and its tokenizer in Hugging Face format."""
    model.save_pretrained(folder)
    world.tokenizer().save_pretrained(folder)


def _new_model(world: LabWorld, tokenizer: "PreTrainedTokenizerFast") -> "LlamaForCausalLM":
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=world.shape.width,
        intermediate_size=world.shape.inner,
        num_hidden_layers=world.shape.layers,
        num_attention_heads=world.shape.heads,
        num_key_value_heads=world.shape.heads,
        max_position_embeddings=world.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config)
    return model


def _batch(pairs: list[tuple[str, str]], tokenizer: "PreTrainedTokenizerFast") -> "tuple[Tensor, Tensor]":
    """Token ids and labels, padded on the right; prompts have no loss."""
    import torch

    prompt_ids = tokenizer([text for text, _ in pairs])["input_ids"]
    answer_ids = tokenizer([text for _, text in pairs])["input_ids"]
    longest = max(len(a) + len(s) + 1 for a, s in zip(prompt_ids, answer_ids, strict=True))
    ids = torch.full((len(pairs), longest), tokenizer.pad_token_id)
    labels = torch.full((len(pairs), longest), IGNORED_LABEL)
    for row, (before, after) in enumerate(zip(prompt_ids, answer_ids, strict=True)):
        tokens = torch.tensor([*before, *after, tokenizer.eos_token_id])
        ids[row, : len(tokens)] = tokens
        labels[row, len(before) : len(tokens)] = tokens[len(before) :]
    return ids, labels


SHIPPED_MODELS = Path(__file__).parent / "models"


def base_of(world: str) -> Path:
    """The folder of a world's base model."""
    folder = SHIPPED_MODELS / world
    if not (folder / "config.json").is_file():
        raise OffleashError(
            f"offleash ships no base model for {world}. Train one: offleash lab pretrain {world} -o DIR."
        )
    return folder


def copy_base(world: str, target: Path) -> Path:
    """Copy a world's base model, to be trained, served or changed."""
    refuse_existing(target)
    shutil.copytree(base_of(world), target, dirs_exist_ok=True)
    return target


def refuse_existing(folder: Path) -> None:
    """Refuse a folder that exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OffleashError(f"{folder} already exists and is not empty. Choose another folder with -o.")
