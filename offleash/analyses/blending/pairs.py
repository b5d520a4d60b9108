"""Two model folders as pairs of tensors, checked: architecture, vocabulary, shapes, tied and missing tensors.

Models that differ in a way which makes interpolation meaningless are refused with the first difference. What the two
files merely write differently is not one: keys of another version of transformers, a tied output head that only one of
them stores.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from offleash.analyses.blending.tensors import (
    BUFFERS,
    FLOATS,
    ITEM_BYTES,
    OutputTensor,
    StoredTensor,
    interpolated,
    same_bytes,
    tensors_of_model,
    wider,
)
from offleash.errors import OffleashError

CONFIG = "config.json"
TOKENIZERS = ("tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model")  # files of vocabularies
# Keys of config.json that do not say what the weights mean. Those of RL are kept.
FREE_KEYS = {
    *("_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "tie_word_embeddings"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings", "attn_implementation"),
    *("rope_theta", "rope_scaling", "rope_parameters"),  # compared by `_rope`: versions of transformers differ
}
TORCH_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
OUTPUT_HEADS = ("lm_head.weight", "embed_out.weight")
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight")
COMPUTED = ("rotary_emb.inv_freq", ".attn.masked_bias")  # stored by old versions; models compute them
SAME_MODEL = "Blend two checkpoints of one model."


@dataclass(frozen=True)
class TensorPair:
    """A tensor of the blend, and what it is made of."""

    name: str
    file: str  # of the blend
    base: StoredTensor
    rl: StoredTensor

    def at(self, weight: float) -> OutputTensor:
        """The tensor of the blend at a weight."""
        if self.rl.dtype in BUFFERS:  # equal in both
            return OutputTensor(self.name, self.rl.dtype, self.rl.shape, self.rl.slices)
        dtype = wider(self.base.dtype, self.rl.dtype)
        return OutputTensor(self.name, dtype, self.rl.shape, lambda: interpolated(self.base, self.rl, weight))


@dataclass(frozen=True)
class ModelPair:
    """Two models that can be blended."""

    base: Path
    rl: Path
    tensors: tuple[TensorPair, ...]
    config: Mapping[str, Any]  # of the blend
    notes: tuple[str, ...]  # what could not be checked


def pair_models(base: Path, rl: Path) -> ModelPair:
    """The tensors of two model folders in pairs; refused with the first difference where they do not fit."""
    configs = {name: read_json(folder / CONFIG) for name, folder in (("the base", base), ("RL", rl))}
    for name, config in configs.items():
        refuse_quantised(name, config)
    _refuse_other_architecture(configs["the base"], configs["RL"])
    notes = _compare_vocabularies(base, rl)
    before, after = ({n: t for n, t in tensors_of_model(f).items() if not n.endswith(COMPUTED)} for f in (base, rl))
    untied = _resolve_heads(before, after, configs)
    pairs = []
    for name in [*after, *sorted(before.keys() - after.keys())]:
        if name not in before or name not in after:
            raise OffleashError(f"Only {'the base' if name in before else 'RL'} has {name}. {SAME_MODEL}")
        pairs.append(TensorPair(name, after[name].file.name, before[name], after[name]))
        check_pair(pairs[-1])
    config = dict(configs["RL"])
    if untied:
        config["tie_word_embeddings"] = False
    kinds = {pair.at(0.5).dtype for pair in pairs} & FLOATS.keys()
    if len(kinds) == 1:  # what `dtype="auto"` loads
        config["dtype" if "dtype" in config else "torch_dtype"] = TORCH_DTYPES[kinds.pop()]
    return ModelPair(base, rl, tuple(pairs), config, tuple(notes))


def check_pair(pair: TensorPair) -> None:
    """Refuse two tensors that cannot be interpolated."""
    for name, tensor in (("the base", pair.base), ("RL", pair.rl)):
        if tensor.dtype not in ITEM_BYTES:
            raise OffleashError(
                f"{pair.name} of {name} is stored as {tensor.dtype}: a quantised checkpoint, whose numbers are codes. "
                "Blend the checkpoints from which it was made."
            )
    if pair.base.shape != pair.rl.shape:
        shapes = f"{list(pair.base.shape)} in the base and {list(pair.rl.shape)} in RL"
        raise OffleashError(f"{pair.name} is {shapes}. {SAME_MODEL}")
    kinds = {pair.base.dtype, pair.rl.dtype}
    if kinds & BUFFERS.keys() and (len(kinds) > 1 or not same_bytes(pair.base, pair.rl)):
        raise OffleashError(
            f"{pair.name} holds integers ({pair.rl.dtype}) that differ between the models, but integers cannot be "
            f"interpolated. {SAME_MODEL}"
        )


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OffleashError(f"{file} cannot be read ({error}). Save or download the model again.") from None
    if not isinstance(content, dict):
        raise OffleashError(f"{file} is not a JSON object. Save or download the model again.")
    return content


def refuse_quantised(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose tensors are codes."""
    quantisation = config.get("quantization_config")
    if quantisation:
        method = quantisation.get("quant_method", "unknown method") if isinstance(quantisation, dict) else quantisation
        raise OffleashError(
            f"The checkpoint of {name} is quantised ({method}): its numbers are codes, which cannot be interpolated. "
            "Blend the checkpoints from which it was made, then quantise the blend."
        )


def _refuse_other_architecture(base: Mapping[str, Any], rl: Mapping[str, Any], above: str = "") -> None:
    """Refuse configs that disagree. A key that only one of them has is a default of the other's version."""
    for key in sorted(base.keys() & rl.keys() - FREE_KEYS):
        before, after = base[key], rl[key]
        if isinstance(before, dict) and isinstance(after, dict):
            _refuse_other_architecture(before, after, f"{above}{key}.")
        elif before is not None and after is not None and before != after:
            raise OffleashError(
                f"The models have different architectures: {above}{key} is {before!r} in the base and {after!r} in "
                f"RL. {SAME_MODEL}"
            )
    before, after = _rope(base), _rope(rl)
    if before is not None and after is not None and before != after:
        raise OffleashError(
            f"The models have different position embeddings: {before} in the base and {after} in RL. {SAME_MODEL}"
        )


def _rope(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rotary position embeddings: rope_theta and rope_scaling, or rope_parameters, which holds both. None: unknown,
    or several by kind of layer, which the older keys cannot express."""
    if not {"rope_theta", "rope_scaling", "rope_parameters"} & config.keys():
        return None
    scaling = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    if any(isinstance(value, dict) for value in scaling.values()):
        return None
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    scaling.pop("type", None)
    theta = scaling.pop("rope_theta", None) or config.get("rope_theta")
    return {"type": kind, "theta": None if theta is None else float(theta), **scaling}


# Vocabularies. A blend of models whose tokens mean different things is noise, whatever the shapes.


def _compare_vocabularies(base: Path, rl: Path) -> list[str]:
    """Refuse different vocabularies, naming the first token; returns a note where there is nothing to compare."""
    compared = False
    for name in TOKENIZERS:
        before, after = base / name, rl / name
        if not (before.is_file() and after.is_file()):
            continue
        compared = True
        if before.read_bytes() == after.read_bytes():
            continue
        if name == "tokenizer.json":
            _refuse_other_tokens(_tokens(read_json(before)), _tokens(read_json(after)))
        elif name == "vocab.json":
            _refuse_other_tokens(read_json(before), read_json(after))
        else:
            raise OffleashError(f"{name} differs between base and RL: they have different vocabularies. Use one model.")
    if not compared and any((rl / name).is_file() for name in TOKENIZERS):
        return ["The tokenizers are stored in different formats and were not compared."]
    return [] if compared else ["RL has no tokenizer of its own: that of the base is used, unchecked."]


def _tokens(tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens and their numbers, of all kinds of models of the tokenizers library."""
    vocabulary = tokenizer.get("model", {}).get("vocab", {})
    tokens = dict(vocabulary) if isinstance(vocabulary, dict) else {t[0]: n for n, t in enumerate(vocabulary)}
    return tokens | {token["content"]: token["id"] for token in tokenizer.get("added_tokens") or []}


def _refuse_other_tokens(base: Mapping[str, Any], rl: Mapping[str, Any]) -> None:
    if base == rl:
        return
    orders = (sorted(tokens.items(), key=lambda item: (item[1], item[0])) for tokens in (base, rl))
    for before, after in zip_longest(*orders):
        if before != after:
            named = ("none" if entry is None else f"{entry[0]!r} ({entry[1]})" for entry in (before, after))
            raise OffleashError(
                f"The models have different vocabularies: the first different token is {next(named)} in the base and "
                f"{next(named)} in RL. Blend two checkpoints with one tokenizer."
            )


# Output heads: often the embeddings once more, stored or not.


def _resolve_heads(
    base: dict[str, StoredTensor], rl: dict[str, StoredTensor], configs: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Give both models an output head where one stores it and in the other it is tied to the embeddings.

    A stored copy of tied embeddings is dropped instead. Returns whether the blend is no longer tied.
    """
    for name in sorted(base.keys() ^ rl.keys()):
        if not name.endswith(OUTPUT_HEADS):
            continue
        owner, other, whose = (base, rl, "the base") if name in base else (rl, base, "RL")
        embedding, own = tied_embedding(other), tied_embedding(owner)
        if embedding is None or own is None:
            continue
        tied, copied = _ties_head(configs[whose]), same_bytes(owner[name], own)
        if tied is False or (tied is None and not copied):
            other[name] = replace(embedding, name=name)
            return True
        if not copied:
            raise OffleashError(
                f"The config of {whose} ties the output head to the embeddings, but {name} and {own.name} differ. "
                "Load and save that model with transformers first."
            )
        del owner[name]
    return False


def _ties_head(config: Mapping[str, Any]) -> bool | None:
    """Whether a config ties the output head to the embeddings; None: it leaves that to its architecture."""
    nested = config.get("text_config")
    default = nested.get("tie_word_embeddings") if isinstance(nested, dict) else None
    tied = config.get("tie_word_embeddings", default)
    return None if tied is None else bool(tied)


def tied_embedding(tensors: Mapping[str, StoredTensor]) -> StoredTensor | None:
    """The input embeddings, if there is one tensor of such a name."""
    candidates = [tensor for name, tensor in tensors.items() if name.endswith(EMBEDDINGS)]
    return candidates[0] if len(candidates) == 1 else None
