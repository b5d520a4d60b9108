"""Checkpoints: a model in Hugging Face format with its training state; a kill leaves a complete one or none.

A checkpoint is written under a temporary name, synced to disk and renamed; a rename is atomic, so a folder called
step-000120 is complete. Deleting goes through a rename too.
"""

import os
import re
import shutil
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from offleash.errors import OffleashError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CHECKPOINTS_FOLDER = "checkpoints"
STATE = "training.pt"
UNFINISHED_PREFIX = ".writing-"  # prefix of one that is not complete yet
DELETING_PREFIX = ".gone-"  # prefix of one that is being deleted
REPLACED_SUFFIX = ".old"  # suffix of one that is being replaced


@dataclass(frozen=True)
class Checkpoint:
    """A model and its training state after `step` steps."""

    step: int
    folder: Path  # an ordinary model folder: hf: and vllm: load it


def save(
    folder: Path,
    step: int,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    state: Mapping[str, object],
    *,
    keep: int | None = 2,
    keep_steps: Collection[int] = (),
    ends: Sequence[int] = (),
) -> Checkpoint:
    """Write a checkpoint, then delete all but the last `keep` (None: none) and those of `keep_steps`.

    `ends` are the tokens that end a sample.

    The state may hold what torch reads back without running code: numbers, text, tensors, and lists and dicts of them.
    """
    from safetensors import SafetensorError

    checkpoints = folder / CHECKPOINTS_FOLDER
    target = checkpoints / f"step-{step:06d}"
    temporary = checkpoints / f"{UNFINISHED_PREFIX}{target.name}"
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        _clean_up(checkpoints)
        _write(temporary, model, tokenizer, state, ends)
        _publish(temporary, target)
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)  # on a full disk every byte counts
        raise OffleashError(
            f"The checkpoint {target} could not be written ({_first_line(error)}); earlier ones are intact. "
            "Free some disk space, then run again to resume from the last one."
        ) from None
    older_checkpoints = [checkpoint for checkpoint in _complete_checkpoints(checkpoints) if checkpoint.step < step]
    surplus = [] if keep is None else older_checkpoints[: max(0, len(older_checkpoints) - max(keep, 1) + 1)]
    for checkpoint in surplus:
        if checkpoint.step not in keep_steps:
            _discard(checkpoint.folder)
    return Checkpoint(step, target)


def newest(folder: Path) -> Checkpoint | None:
    """The complete checkpoint with the most steps, if there is one."""
    return max(_complete_checkpoints(folder / CHECKPOINTS_FOLDER), key=lambda checkpoint: checkpoint.step, default=None)


def load_state(checkpoint: Checkpoint) -> Mapping[str, object]:
    """The training state as it was saved, its tensors on the CPU; damaged files are refused."""
    file = checkpoint.folder / STATE
    try:
        with zipfile.ZipFile(file) as archive:  # torch itself does not check the checksums that it writes
            damaged_member = archive.testzip()
        state = None if damaged_member else _read(file)
        damage = f"{damaged_member} does not match its checksum" if damaged_member else "it holds no training state"
    except (OSError, RuntimeError, EOFError, ValueError, UnpicklingError, zipfile.BadZipFile) as error:
        state, damage = None, _first_line(error)
    if not isinstance(state, Mapping):
        raise OffleashError(
            f"{file} is damaged ({damage}). Delete {checkpoint.folder} to resume from the checkpoint before it."
        )
    return state


def _write(
    temporary: Path,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    state: Mapping[str, object],
    ends: Sequence[int],
) -> None:
    """Write all files of a checkpoint and sync them: a rename must not reach the disk before its content."""
    import torch
    from transformers import GenerationConfig

    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    # Samplers clear the model's generation config; saved like that, `generate` would never end a sample.
    own = model.generation_config
    no_eos = own is None or own.eos_token_id is None
    decoding = GenerationConfig.from_model_config(model.config) if no_eos else deepcopy(own)
    if ends:
        decoding.eos_token_id = list(ends)
    elif decoding.eos_token_id is None:
        decoding.eos_token_id = tokenizer.eos_token_id
    decoding.save_pretrained(temporary)
    torch.save(dict(state), temporary / STATE)
    try:
        _read(temporary / STATE, use_mmap=True)
    except UnpicklingError as error:
        raise TypeError(
            "A training state may hold only numbers, text, tensors, and lists and dicts of them."
        ) from error
    for file in temporary.rglob("*"):
        _sync(file)
    _sync(temporary)


def _read(file: Path, use_mmap: bool = False) -> object:
    """The state in a file; `use_mmap` leaves its tensors on the disk."""
    import torch

    state: object = torch.load(file, map_location="cpu", weights_only=True, mmap=use_mmap)
    return state


def _publish(temporary: Path, target: Path) -> None:
    """Give a complete checkpoint its name; an older one of that name is kept aside until the new one is in place."""
    old = target.with_name(target.name + REPLACED_SUFFIX)
    if target.exists():
        target.rename(old)
    temporary.rename(target)
    _sync(target.parent)
    if old.exists():
        _discard(old)


def _complete_checkpoints(checkpoints: Path) -> list[Checkpoint]:
    """The complete checkpoints, by step; one that was being replaced counts if a kill came before its successor."""
    folder_of: dict[int, Path] = {}
    for path in sorted(checkpoints.glob("step-*"), reverse=True):  # step-000120.old before step-000120
        named = re.fullmatch(rf"step-(\d+)(?:{re.escape(REPLACED_SUFFIX)})?", path.name)
        if named and (path / STATE).is_file():
            folder_of[int(named[1])] = path
    return [Checkpoint(step, folder_of[step]) for step in sorted(folder_of)]


def _clean_up(checkpoints: Path) -> None:
    """Delete what a kill left half written or half deleted."""
    for start in (UNFINISHED_PREFIX, DELETING_PREFIX):
        for path in checkpoints.glob(f"{start}*"):
            shutil.rmtree(path, ignore_errors=True)
    for path in checkpoints.glob(f"step-*{REPLACED_SUFFIX}"):
        if (path.with_suffix("") / STATE).is_file():
            _discard(path)


def _discard(folder: Path) -> None:
    """Delete a checkpoint under another name, so that a kill leaves no half of one under its own."""
    deleting = folder.with_name(DELETING_PREFIX + folder.name)
    with suppress(OSError):  # the next save tries again
        folder.rename(deleting)
        shutil.rmtree(deleting, ignore_errors=True)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
