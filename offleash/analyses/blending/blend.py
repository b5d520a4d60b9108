"""Blend two checkpoints: models on the line between a base and what RL made of it, as folders that any engine loads.

`blend_models` is the function that other analyses use. A blend of weight w holds base + w (RL - base), tensor by tensor
(WiSE-FT, arXiv:2504.10478; WARP, arXiv:2406.16768). A folder appears whole or not at all: it is written under another
name and renamed.
"""

import json
import shutil
from pathlib import Path

from offleash.analyses.blending.tensors import (
    BUFFERS,
    INDEX,
    OutputTensor,
    StoredTensor,
    interpolated,
    same_bytes,
    tensors_of_model,
    wider,
    write_tensors,
)
from offleash.data.atomic import write_text_atomically
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.huggingface.loading import check_folder
from offleash.version import __version__

RECORD = "blend.json"
WRITING = ".writing-"  # begins the name of a folder that is not whole yet
COPIED_SUFFIXES = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".py")  # config, tokenizer, templates, code


def blend_models(base: Path, rl: Path, weight: float, out: Path, progress: Progress = silent) -> Path:
    """Write the model at `weight` on the line from `base` (0) to `rl` (1) into the folder `out`, and return `out`.

    Args:
        base: folder of the model before RL.
        rl: folder of the model after RL.
        weight: 0 and 1 copy the models bit for bit; between, numbers are interpolated in float32 and rounded once.
        out: a folder that does not exist yet.
        progress: called with a line of text while tensors are written.

    Example:
        model = blend_models(Path("base"), Path("rl/model"), 0.5, Path("blends/0.5"))
    """
    for folder in (base, rl):
        check_folder(str(folder))
    if out.exists():
        raise OffleashError(f"{out} already exists. Choose another folder with -o.")
    temporary = out.with_name(WRITING + out.name)
    shutil.rmtree(temporary, ignore_errors=True)  # what a kill left
    temporary.mkdir(parents=True)
    try:
        if weight in (0, 1):
            _copy_files(base if weight == 0 else rl, temporary, weights=True)
        else:
            _copy_files(rl, temporary, weights=False)
            _write_model(tensors_of_model(base), tensors_of_model(rl), weight, temporary, progress)
        record = {"base": str(base), "rl": str(rl), "weight": weight, "offleash": __version__}
        write_text_atomically(temporary / RECORD, json.dumps(record, indent=2) + "\n")
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return out


def _copy_files(source: Path, target: Path, *, weights: bool) -> None:
    """Copy config, tokenizer and templates; with `weights` also the tensors, as they are."""
    shards = {tensor.file.name for tensor in tensors_of_model(source).values()} if weights else set()
    for file in sorted(source.iterdir()):
        wanted = file.suffix in COPIED_SUFFIXES and file.name not in (RECORD, "trainer_state.json")
        if file.name in shards or (wanted and file.is_file() and (weights or file.name != INDEX)):
            shutil.copyfile(file, target / file.name)


def _write_model(
    base: dict[str, StoredTensor], rl: dict[str, StoredTensor], weight: float, folder: Path, progress: Progress
) -> None:
    """Write the tensors of a blend into the shards that the RL model has, with their index."""
    for name in sorted(base.keys() | rl.keys()):
        if name not in base or name not in rl:
            raise OffleashError(f"Only {'the base' if name in base else 'RL'} has {name}. Blend models of one shape.")
        if base[name].shape != rl[name].shape:
            raise OffleashError(
                f"{name} is {list(base[name].shape)} in the base and {list(rl[name].shape)} in RL. "
                "Blend models of one shape."
            )
        if base[name].dtype in BUFFERS and not same_bytes(base[name], rl[name]):
            raise OffleashError(f"{name} ({base[name].dtype}) differs, and integers cannot be interpolated.")
    shards: dict[str, list[OutputTensor]] = {}
    for name, tensor in rl.items():
        shards.setdefault(tensor.file.name, []).append(_blended(base[name], tensor, weight))
    total, done = sum(tensor.size for tensors in shards.values() for tensor in tensors), 0

    def report(size: int) -> None:
        nonlocal done
        done += size
        progress(f"{done / 1e9:.2f} of {total / 1e9:.2f} GB")

    for file, tensors in shards.items():
        write_tensors(folder / file, tensors, report)
    if len(shards) > 1:
        places = {tensor.name: file for file, tensors in shards.items() for tensor in tensors}
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        write_text_atomically(folder / INDEX, json.dumps(index, indent=2) + "\n")


def _blended(base: StoredTensor, rl: StoredTensor, weight: float) -> OutputTensor:
    if rl.dtype in BUFFERS:
        return OutputTensor(rl.name, rl.dtype, rl.shape, rl.slices)
    return OutputTensor(rl.name, wider(base.dtype, rl.dtype), rl.shape, lambda: interpolated(base, rl, weight))
