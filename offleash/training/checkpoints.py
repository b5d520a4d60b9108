"""Checkpoints: a model in Hugging Face format with its training state; a kill leaves a whole one or none."""

import os
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from offleash.errors import OffleashError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FOLDER = "checkpoints"
STATE = "training.pt"
WRITING = ".writing-"  # in front of the name of one that is not whole yet
GONE = ".gone-"  # in front of the name of one that is being deleted
OLD = ".old"  # behind the name of one whose place another takes


@dataclass(frozen=True)
class Checkpoint:
    """A model and the state of its training after so many steps."""

    step: int
    folder: Path  # a model as any other: hf: and vllm: open it


def save(
    folder: Path,
    step: int,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    state: Mapping[str, object],
    *,
    keep: int = 2,
    ends: Sequence[int] = (),
) -> Checkpoint:
    """Write a checkpoint, then delete all but the last `keep`; `ends` are the tokens that end a sample.

    The state may hold what torch reads back without running code: numbers, text, tensors, and lists and dicts of them.
    """
    from safetensors import SafetensorError

    place = folder / FOLDER
    target = place / f"step-{step:06d}"
    temporary = place / f"{WRITING}{target.name}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        _sweep(place)
        _write(temporary, model, tokenizer, state, ends)
        _stand(temporary, target)
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)  # on a full disk every byte counts
        raise OffleashError(
            f"The checkpoint {target} could not be written ({_first_line(error)}); those before it are good. "
            "Make room on the disk, then run again to go on from the last one."
        ) from None
    older = [checkpoint for checkpoint in _standing(place) if checkpoint.step < step]
    for checkpoint in older[: max(0, len(older) - max(keep, 1) + 1)]:
        _discard(checkpoint.folder)
    return Checkpoint(step, target)


def newest(folder: Path) -> Checkpoint | None:
    """The checkpoint of the most steps that is whole, if there is one."""
    return max(_standing(folder / FOLDER), key=lambda checkpoint: checkpoint.step, default=None)


def load_state(checkpoint: Checkpoint) -> Mapping[str, object]:
    """The state of a training as it was saved, its tensors on the CPU; damaged bytes are noticed."""
    file = checkpoint.folder / STATE
    try:
        with zipfile.ZipFile(file) as archive:  # torch itself does not look at the checksums that it writes
            broken = archive.testzip()
        state = None if broken else _read(file)
        damage = f"{broken} differs from its checksum" if broken else "it holds no state of a training"
    except (OSError, RuntimeError, EOFError, ValueError, UnpicklingError, zipfile.BadZipFile) as error:
        state, damage = None, _first_line(error)
    if not isinstance(state, Mapping):
        raise OffleashError(
            f"{file} is damaged ({damage}). Delete {checkpoint.folder} to go on from the checkpoint before it."
        )
    return state


def _write(
    temporary: Path,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    state: Mapping[str, object],
    ends: Sequence[int],
) -> None:
    """All files of a checkpoint, on the disk and not only on their way to it."""
    import torch
    from transformers import GenerationConfig

    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    # samplers empty the model's own: written like that, `generate` would never end a sample of the checkpoint
    own = model.generation_config
    empty = own is None or own.eos_token_id is None
    decoding = GenerationConfig.from_model_config(model.config) if empty else deepcopy(own)
    if ends:
        decoding.eos_token_id = list(ends)
    elif decoding.eos_token_id is None:
        decoding.eos_token_id = tokenizer.eos_token_id
    decoding.save_pretrained(temporary)
    torch.save(dict(state), temporary / STATE)
    try:
        _read(temporary / STATE, mapped=True)
    except UnpicklingError as error:
        raise TypeError("A state holds numbers, text, tensors, lists and dicts of them, nothing else.") from error
    for file in temporary.rglob("*"):
        _sync(file)
    _sync(temporary)


def _read(file: Path, mapped: bool = False) -> object:
    """The state in a file; `mapped` leaves its tensors on the disk."""
    import torch

    state: object = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    return state


def _stand(temporary: Path, target: Path) -> None:
    """Give a whole checkpoint its name; one that has it already steps aside until the new one stands."""
    aside = target.with_name(target.name + OLD)
    if target.exists():
        target.rename(aside)
    temporary.rename(target)
    _sync(target.parent)
    if aside.exists():
        _discard(aside)


def _standing(place: Path) -> list[Checkpoint]:
    """The whole checkpoints, by step; one that stepped aside counts where a kill came before the new one stood."""
    found: dict[int, Path] = {}
    for path in sorted(place.glob("step-*"), reverse=True):  # step-000120.old before step-000120
        named = re.fullmatch(rf"step-(\d+)(?:{re.escape(OLD)})?", path.name)
        if named and (path / STATE).is_file():
            found[int(named[1])] = path
    return [Checkpoint(step, found[step]) for step in sorted(found)]


def _sweep(place: Path) -> None:
    """Delete what a kill left half written or half deleted."""
    for start in (WRITING, GONE):
        for path in place.glob(f"{start}*"):
            shutil.rmtree(path, ignore_errors=True)
    for path in place.glob(f"step-*{OLD}"):
        if (path.with_suffix("") / STATE).is_file():
            _discard(path)


def _discard(folder: Path) -> None:
    """Delete a checkpoint under another name, so that a kill leaves no half of one under its own."""
    gone = folder.with_name(GONE + folder.name)
    with suppress(OSError):  # the next save tries again
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
