"""Blends of a base with a LoRA adapter: an adapter again, in which what was added is scaled and what was replaced is
interpolated.

LoRA adds s B A to a weight (arXiv:2106.09685), so the model at weight w has B scaled by w. Modules that were trained
whole (`modules_to_save`) and trained biases stand for tensors of the base and are interpolated with those. Variants
that do more to the base's weights than adding to them are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offleash.analyses.blending.pairs import (
    CONFIG,
    OUTPUT_HEADS,
    TensorPair,
    check_pair,
    read_json,
    refuse_quantised,
    tied_embedding,
)
from offleash.analyses.blending.tensors import (
    FLOATS,
    OutputTensor,
    StoredTensor,
    scaled,
    tensors_of_file,
    tensors_of_model,
)
from offleash.errors import OffleashError

ADAPTER_CONFIG, ADAPTER = "adapter_config.json", "adapter_model.safetensors"
ADDITIVE_INITS = (True, False, None, "gaussian", "eva", "orthogonal")  # the others change the base's weights first
# Options with which a layer is no longer base + s B A, and why.
NOT_ADDITIVE = {
    "use_dora": "DoRA normalises the base's weights, so that halfway in its parameters is not halfway in the weights",
    "kasa_config": "KaSA changes the base's weights before it adds to them",
    "monteclora_config": "MonteCLoRA draws its update at random",
    "arrow_config": "Arrow routes between several adapters",
    "use_qalora": "QALoRA adds to quantised weights",
    "trainable_token_indices": "trained rows of the embeddings are not supported yet",
}
LORA = re.compile(r"(.+)\.(lora_(?:embedding_)?)([AB])(\.weight|\.bias)?")


@dataclass(frozen=True)
class AdapterPair:
    """A base and an adapter that can be blended: tensors to copy, to scale and to interpolate."""

    base: Path
    rl: Path
    copied: tuple[StoredTensor, ...]  # lora_A
    scaled: tuple[StoredTensor, ...]  # lora_B
    replaced: tuple[TensorPair, ...]  # with the base's tensor of each
    notes: tuple[str, ...]

    def at(self, weight: float) -> list[OutputTensor]:
        """The tensors of the adapter at a weight."""
        return [
            *(OutputTensor(tensor.name, tensor.dtype, tensor.shape, tensor.slices) for tensor in self.copied),
            *(_scaled(tensor, weight) for tensor in self.scaled),
            *(pair.at(weight) for pair in self.replaced),
        ]


def _scaled(tensor: StoredTensor, weight: float) -> OutputTensor:
    return OutputTensor(tensor.name, tensor.dtype, tensor.shape, lambda: scaled(tensor, weight))


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds a PEFT adapter and no model of its own."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / CONFIG).is_file()


def pair_adapter(base: Path, adapter: Path, named_base: Path | None) -> AdapterPair:
    """A base and a LoRA adapter, checked; `named_base` is the folder of the base that the adapter names, if known."""
    config = read_json(adapter / ADAPTER_CONFIG)
    _refuse_variants(adapter, config)
    refuse_quantised("the base", read_json(base / CONFIG))
    if not (adapter / ADAPTER).is_file():
        pickled = (adapter / "adapter_model.bin").is_file()
        step = "Its weights are pickled, which can run code: save them as safetensors." if pickled else "Save it again."
        raise OffleashError(f"{adapter} has no {ADAPTER}. {step}")
    stored, tensors = tensors_of_file(adapter / ADAPTER), tensors_of_model(base)
    if named_base is not None and not _same_weights(tensors, tensors_of_model(named_base)):
        raise OffleashError(
            f"{adapter} is an adapter for {config['base_model_name_or_path']}, and {base} has other weights. Give the "
            "base that it was trained on."
        )
    copied: list[StoredTensor] = []
    multiplied: list[StoredTensor] = []
    replaced: list[TensorPair] = []
    for name, tensor in stored.items():
        part = LORA.fullmatch(name)
        if part is None:
            replaced.append(_replaced(tensor, tensors, adapter, base))
        elif tensor.dtype not in FLOATS:
            raise OffleashError(
                f"{name} of {adapter} is stored as {tensor.dtype}, which is quantised. Save it unquantised."
            )
        else:
            (copied if part[3] == "A" else multiplied).append(tensor)
            if part[3] == "A" and not config.get("target_parameters"):
                _check_shape(part, stored, tensors, adapter, base)
    named = config.get("base_model_name_or_path")
    unchecked = f"The adapter names {named} as its base, which is not on this machine: only shapes were compared."
    return AdapterPair(
        base,
        adapter,
        tuple(copied),
        tuple(multiplied),
        tuple(replaced),
        (unchecked,) if named and not named_base else (),
    )


def _refuse_variants(adapter: Path, config: Mapping[str, Any]) -> None:
    """Refuse adapters that are not LoRA, or a variant of it that is not additive."""
    kind = config.get("peft_type")
    if kind != "LORA":
        raise OffleashError(
            f"{adapter} is an adapter of type {kind}, and only LoRA can be blended. Merge it into its base, then blend "
            "the merged model."
        )
    reasons = [reason for option, reason in NOT_ADDITIVE.items() if config.get(option)]
    start = config.get("init_lora_weights")
    if start not in ADDITIVE_INITS:
        reasons.append(f"its initialisation ({start}) changed the base's weights")
    if reasons:
        raise OffleashError(
            f"{adapter} cannot be blended as an adapter: {reasons[0]}. Merge it into its base (merge_and_unload of "
            "peft), then blend the merged model."
        )


def _base_name(name: str) -> str:
    """The name in the base of a tensor that an adapter replaces."""
    return name.removeprefix("base_model.model.").replace(".base_layer.", ".").replace(".modules_to_save.", ".")


def _replaced(tensor: StoredTensor, base: Mapping[str, StoredTensor], adapter: Path, folder: Path) -> TensorPair:
    """A tensor that was trained whole, with the base's own."""
    name = _base_name(tensor.name)
    own = base.get(name) or (tied_embedding(base) if name.endswith(OUTPUT_HEADS) else None)
    if own is None or own.shape != tensor.shape:
        there = "has none" if own is None else f"has {list(own.shape)}"
        raise OffleashError(
            f"{adapter} is an adapter for another base: it replaces {name} {list(tensor.shape)}, and {folder} {there}. "
            "Give the base that it was trained on."
        )
    pair = TensorPair(tensor.name, ADAPTER, own, tensor)
    check_pair(pair)
    return pair


def _check_shape(
    part: re.Match[str],
    stored: Mapping[str, StoredTensor],
    base: Mapping[str, StoredTensor],
    adapter: Path,
    folder: Path,
) -> None:
    """Refuse an adapter whose layers the base does not have, or has in another shape."""
    module, kind, _, ending = part.groups()
    name = f"{_base_name(module + '.')}weight"
    own, after = base.get(name), stored.get(f"{module}.{kind}B{ending or ''}")
    if own is None and name.endswith(OUTPUT_HEADS):
        own = tied_embedding(base)
    before = stored[part[0]]
    if own is not None and after is not None and len(before.shape) == len(own.shape) == 2:
        # Some layers store their weight transposed, and so do embeddings.
        if sorted(own.shape) == sorted((before.shape[1], after.shape[0])):
            return
    elif own is not None and after is not None:
        return  # convolutions: shapes of another form
    existing = "has no such tensor" if own is None else f"has {list(own.shape)}"
    size = f"{after.shape[0]} x {before.shape[1]}" if after is not None and len(before.shape) == 2 else "a matrix"
    raise OffleashError(
        f"{adapter} is an adapter for another base: it adds {size} to {name}, and {folder} {existing}. Give the "
        "base that it was trained on."
    )


def _same_weights(first: Mapping[str, StoredTensor], second: Mapping[str, StoredTensor]) -> bool:
    """Whether two models have the same weights, by the first bytes of every tensor: training changes all of them."""
    if first.keys() != second.keys():
        return False
    for name, tensor in first.items():
        other = second[name]
        if (tensor.dtype, tensor.shape) != (other.dtype, other.shape) or tensor.beginning() != other.beginning():
            return False
    return True
