"""Blend two checkpoints: models on the line between a base and what RL made of it, as folders that any engine loads.

A blend of weight w holds base + w (RL - base), tensor by tensor (WiSE-FT, arXiv:2504.10478; WARP, arXiv:2406.16768).
`blend_models` writes one and is what other analyses call; `write_blends` writes several, for `offleash blend`. All
checks come before the first byte is written, and a folder appears whole or not at all: it is written under another name
and renamed.
"""

import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path

from offleash.analyses.blending.adapters import ADAPTER, ADAPTER_CONFIG, AdapterPair, is_adapter, pair_adapter
from offleash.analyses.blending.pairs import CONFIG, TOKENIZERS, ModelPair, pair_models, read_json
from offleash.analyses.blending.tensors import (
    HASH_BYTES,
    INDEX,
    OutputTensor,
    StoredTensor,
    tensors_of_file,
    tensors_of_model,
    write_tensors,
)
from offleash.errors import OffleashError
from offleash.progress import Progress, silent, stage
from offleash.render.json import encode
from offleash.render.numbers import counted
from offleash.samplers.huggingface.loading import check_folder
from offleash.samplers.registry import Model, fingerprint, model_of, split_label
from offleash.version import __version__

RECORD = "blend.json"
WRITING = ".writing-"  # begins the name of a folder that is not whole yet
COPIED_SUFFIXES = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".py")  # config, tokenizer, templates, code
NOT_COPIED = (RECORD, INDEX, "trainer_state.json")


@dataclass(frozen=True)
class BlendRecord:
    """What a blend is made of: its fields are the keys of blend.json."""

    base: Path
    rl: Path
    weight: float
    base_fingerprint: str  # of the model's files, weights by evenly spaced blocks
    rl_fingerprint: str
    kind: str  # model, or adapter: then it is loaded with the base
    dtypes: dict[str, int]  # tensors of each dtype
    files: dict[str, str]  # hash (BLAKE2b, 256 bits) of each file of weights
    notes: tuple[str, ...]
    offleash: str = __version__


@dataclass(frozen=True)
class BlendedModel:
    """A blend on disk."""

    weight: float
    folder: Path
    model: str  # as draw and study take it: hf:FOLDER, or hf:BASE+FOLDER for an adapter
    new: bool  # False: it was there before


@dataclass(frozen=True)
class Blends:
    """The blends of two models."""

    base: str  # as draw and study take it
    rl: str
    labels: tuple[str, str]  # what base and RL are called: NAME of NAME=MODEL
    kind: str  # model or adapter
    dtypes: dict[str, int]
    notes: tuple[str, ...]
    models: tuple[BlendedModel, ...]


def blend_models(base: Path, rl: Path, weight: float, out: Path, progress: Progress = silent) -> Path:
    """Write the model at `weight` on the line from `base` (0) to `rl` (1) into the folder `out`, and return `out`.

    Args:
        base: folder of the model before RL.
        rl: folder of the model after RL, or of a LoRA adapter on `base`: the blend is then an adapter too.
        weight: 0 and 1 copy the models bit for bit; between, numbers are interpolated in float32 and rounded once.
            Outside of [0, 1] it extrapolates.
        out: a folder that does not exist yet, or that holds this very blend, which is then kept.
        progress: called with a line of text while tensors are written.

    Example:
        model = blend_models(Path("base"), Path("rl/model"), 0.5, Path("blends/0.5"))
    """
    pair = _pair(base, rl)
    if not _exists(out, pair, weight):
        _check_space(pair, [out])
        _write_blend(pair, weight, out, progress)
    return out


def write_blends(
    base: str, rl: str, weights: Sequence[float], out: Path, extrapolate: bool = False, progress: Progress = silent
) -> Blends:
    """Write the blends of two models, named as `draw` takes them, into folders OUT/WEIGHT; existing ones are kept."""
    _check_weights(weights, extrapolate)
    first, second = _model_of(base), _model_of(rl)
    base_folder, rl_folder = _folder_of(first), _folder_of(second)
    progress("comparing the models")
    pair = _pair(base_folder, rl_folder)
    folders = {weight: out / f"{weight:.12g}" for weight in weights}
    missing = [weight for weight, folder in folders.items() if not _exists(folder, pair, weight)]
    _check_space(pair, [folders[weight] for weight in missing])
    for weight in missing:
        _write_blend(pair, weight, folders[weight], stage(progress, f"weight {weight:g}"))
    adapter = isinstance(pair, AdapterPair)
    before, after = str(first), f"{first}+{rl_folder}" if adapter else str(second)
    models = [
        BlendedModel(weight, folder, f"{first}+{folder}" if adapter else f"hf:{folder}", weight in missing)
        for weight, folder in folders.items()
    ]
    kind = "adapter" if adapter else "model"
    labels = (first.label or before, second.label or after)
    return Blends(before, after, labels, kind, _dtypes(_tensors(pair, 0.5)), pair.notes, tuple(models))


def blends_text(blends: Blends) -> str:
    """A headline, a line per blend, and what to do with them."""
    new = sum(model.new for model in blends.models)
    there = f" ({len(blends.models) - new} existed)" if new < len(blends.models) else ""
    kinds = ", ".join(f"{count:,} tensors {dtype}" for dtype, count in blends.dtypes.items())
    count = f"{counted(len(blends.models), blends.kind)}{there}"
    base, rl = blends.labels
    models = " ".join(model.model for model in blends.models)
    return "\n".join(
        [
            f"{count} between {base} (weight 0) and {rl} (weight 1); {kinds}.",
            *(f"  {model.weight:<6g} {model.model}" for model in blends.models),
            *(f"  Note: {note}" for note in blends.notes),
            f"  To see what each reaches: offleash study PROBLEMS {blends.base} {blends.rl} {models} -k 1024 -o DIR",
        ]
    )


def _check_weights(weights: Sequence[float], extrapolate: bool) -> None:
    if not weights:
        raise OffleashError("No weight was given. Write, for example, --weights 0.25,0.5,0.75.")
    for weight in weights:
        if not math.isfinite(weight):
            raise OffleashError(f"A weight must be a number; found {weight}. Write, for example, --weights 0.5.")
        if not 0 <= weight <= 1 and not extrapolate:
            raise OffleashError(
                f"The weight {weight:g} is outside of [0, 1], beyond one of the models. To extrapolate, add "
                "--extrapolate."
            )
    if len(set(weights)) < len(weights):
        raise OffleashError(f"A weight is given twice: {', '.join(f'{weight:g}' for weight in weights)}. Remove it.")


def _model_of(text: str) -> Model:
    """A model as the user names it; a path without a prefix is a folder, so that the error speaks of one."""
    label, name = split_label(text)
    return model_of(text if ":" in name or Path(name).exists() else f"{label}{'=' if label else ''}hf:{name}")


def _folder_of(model: Model) -> Path:
    """The folder of a model: of its adapter, if it has one; of a name on the hub, the copy in the cache."""
    if model.sampler not in ("hf", "vllm"):
        raise OffleashError(f"{model} is not a model folder, and a blend is made of files. Give a folder or hf:PATH.")
    name = model.adapter or model.name
    folder = Path(name).expanduser()
    if not folder.is_dir():
        folder = _cached(name, model.revision) or folder
    if not is_adapter(folder):
        check_folder(str(folder))
        if not folder.is_dir():
            raise OffleashError(f"{name} is not on this machine. Download it first: hf download {name}.")
    return folder


def _cached(name: str, revision: str = "") -> Path | None:
    """The folder of a model of the hub in the local cache, if it is there."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError:
        return None
    try:
        return Path(snapshot_download(name, revision=revision or None, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _pair(base: Path, rl: Path) -> ModelPair | AdapterPair:
    """The two models, checked."""
    if is_adapter(base):
        raise OffleashError(
            f"The base {base} is an adapter. Merge it into its own base first (merge_and_unload of peft)."
        )
    check_folder(str(base))
    if not is_adapter(rl):
        check_folder(str(rl))
        return pair_models(base, rl)
    named = str(read_json(rl / ADAPTER_CONFIG).get("base_model_name_or_path") or "")
    folder = Path(named).expanduser() if named else None
    if folder is not None and not (folder / CONFIG).is_file():
        folder = _cached(named)
    return pair_adapter(base, rl, folder)


def _tensors(pair: ModelPair | AdapterPair, weight: float) -> list[OutputTensor]:
    return [tensor.at(weight) for tensor in pair.tensors] if isinstance(pair, ModelPair) else pair.at(weight)


def _dtypes(tensors: Sequence[OutputTensor | StoredTensor]) -> dict[str, int]:
    kinds = [tensor.dtype for tensor in tensors]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _exists(out: Path, pair: ModelPair | AdapterPair, weight: float) -> bool:
    """Whether the folder holds this very blend; refused where it holds something else."""
    if not out.exists():
        return False
    hint = "Choose another folder with -o."
    if not (out / RECORD).is_file():
        raise OffleashError(f"{out} exists and is not a blend. {hint}")
    record = read_json(out / RECORD)
    keys = ("base_fingerprint", "rl_fingerprint", "weight")
    if tuple(record.get(key) for key in keys) != (fingerprint(str(pair.base)), fingerprint(str(pair.rl)), weight):
        made = f"{record.get('base')} and {record.get('rl')} at {record.get('weight')}"
        raise OffleashError(f"{out} holds another blend ({made}). {hint}")
    return True


def _check_space(pair: ModelPair | AdapterPair, folders: Sequence[Path]) -> None:
    """Refuse to begin what the disk cannot hold."""
    if not folders:
        return
    needed = len(folders) * sum(tensor.size for tensor in _tensors(pair, 0.5))
    place = folders[0].absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OffleashError(
            f"The disk of {folders[0].parent} has {free / 1e9:.1f} GB free, and {len(folders)} blends need "
            f"{needed / 1e9:.1f} GB. Free disk space, give fewer --weights, or choose another folder with -o."
        )


def _write_blend(pair: ModelPair | AdapterPair, weight: float, out: Path, progress: Progress) -> None:
    """Write one blend beside its name, sync it and rename it."""
    temporary = out.with_name(WRITING + out.name)
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # what a kill left
        temporary.mkdir(parents=True)
        if weight == 1 or (weight == 0 and isinstance(pair, ModelPair)):
            files, dtypes = _copy_model(pair.rl if weight == 1 else pair.base, temporary)
        else:
            files, dtypes = _write_weights(pair, weight, temporary, progress), _dtypes(_tensors(pair, weight))
        record = BlendRecord(
            pair.base.absolute(),
            pair.rl.absolute(),
            weight,
            fingerprint(str(pair.base)),
            fingerprint(str(pair.rl)),
            "model" if isinstance(pair, ModelPair) else "adapter",
            dtypes,
            files,
            pair.notes,
        )
        _write_json(temporary / RECORD, encode(record))
        for file in temporary.iterdir():  # a rename must not reach the disk before the content
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        temporary.rename(out)
    except OSError as error:
        raise OffleashError(
            f"{out} could not be written ({error.strerror or error}). Free disk space, or choose another -o."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy_model(source: Path, target: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Copy a model or an adapter as it is; returns the hashes of its files of weights, and its dtypes."""
    _copy_files(source, target)
    tensors = tensors_of_file(source / ADAPTER) if is_adapter(source) else tensors_of_model(source)
    files = {}
    for name in sorted({tensor.file.name for tensor in tensors.values()}):
        shutil.copyfile(source / name, target / name)
        with (target / name).open("rb") as stream:
            files[name] = file_digest(stream, lambda: blake2b(digest_size=HASH_BYTES)).hexdigest()
    if len(files) > 1:
        shutil.copyfile(source / INDEX, target / INDEX)
    return files, _dtypes(list(tensors.values()))


def _copy_files(source: Path, target: Path) -> None:
    """Copy what belongs to a model beside its weights: config, tokenizer, templates, code."""
    for file in sorted(source.iterdir()):
        if file.is_file() and file.suffix in COPIED_SUFFIXES and file.name not in NOT_COPIED:
            shutil.copyfile(file, target / file.name)


def _write_weights(pair: ModelPair | AdapterPair, weight: float, folder: Path, progress: Progress) -> dict[str, str]:
    """Write the tensors of a blend into the files that RL has, with config and tokenizer; returns the files' hashes."""
    shards: dict[str, list[OutputTensor]] = {}
    if isinstance(pair, ModelPair):
        if not any((pair.rl / name).is_file() for name in TOKENIZERS):  # a bare checkpoint
            _copy_files(pair.base, folder)
        _copy_files(pair.rl, folder)
        _write_json(folder / CONFIG, pair.config)
        for tensor in pair.tensors:
            shards.setdefault(tensor.file, []).append(tensor.at(weight))
    else:
        _copy_files(pair.rl, folder)
        shards[ADAPTER] = pair.at(weight)
    total, done = sum(tensor.size for tensors in shards.values() for tensor in tensors), 0

    def report(size: int) -> None:
        nonlocal done
        done += size
        progress(f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB")

    files = {file: write_tensors(folder / file, tensors, report) for file, tensors in shards.items()}
    if len(shards) > 1:
        places = {tensor.name: file for file, tensors in shards.items() for tensor in tensors}
        _write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))})
    return files


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
