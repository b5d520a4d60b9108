"""SAMPLERS: who can answer, by the prefix of a model's name (hf:, vllm:, endpoint:, scripted:)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from offleash.errors import OffleashError, unknown
from offleash.samplers.sampler import Sampler

# prefix: module with a function open_sampler(model: Model) -> Sampler
SAMPLERS: dict[str, str] = {
    "hf": "offleash.samplers.huggingface.sampler",
    "vllm": "offleash.samplers.vllm.sampler",
    "endpoint": "offleash.samplers.endpoint.sampler",
    "scripted": "offleash.samplers.scripted",
}

EXTRAS = {"hf": "pip install 'offleash[local]'"}  # what a sampler needs beyond the package


@dataclass(frozen=True)
class Model:
    """A model as the user names it: hf:PATH@REVISION+ADAPTER, endpoint:URL#MODEL, ..."""

    sampler: str
    name: str  # path, name on the hub, or address
    revision: str = ""
    adapter: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # --set NAME=VALUE: options of the engine
    raw: bool = False  # give prompts as they stand, without the model's chat template

    def __str__(self) -> str:
        revision, adapter = (f"@{self.revision}" if self.revision else ""), (f"+{self.adapter}" if self.adapter else "")
        return f"{self.sampler}:{self.name}{revision}{adapter}"


def model_of(text: str, settings: Mapping[str, str] | None = None, raw: bool = False) -> Model:
    """What a model's name stands for."""
    prefix, colon, rest = text.partition(":")
    if not colon or prefix not in SAMPLERS:
        if Path(text).is_dir():
            raise OffleashError(f"{text!r} is a folder; say who is to run it: hf:{text} or vllm:{text}.")
        if prefix in ("http", "https"):
            raise OffleashError(f"{text!r} is an address; write endpoint:{text}.")
        known = [f"{name}:" for name in SAMPLERS]
        raise (
            unknown("sampler", f"{prefix}:" if colon else text, known)
            if colon
            else OffleashError(
                f"{text!r} does not say who is to run it; write hf:{text} or vllm:{text}. Known: {', '.join(known)}."
            )
        )
    if not rest:
        raise OffleashError(f"{text!r} names no model; write {prefix}:PATH, for example {prefix}:./checkpoints/rl.")
    if prefix in ("hf", "vllm"):
        name, revision, adapter = _parts(rest)
        return Model(prefix, name, revision, adapter, dict(settings or {}), raw)
    return Model(prefix, rest, settings=dict(settings or {}), raw=raw)


def open_sampler(model: Model) -> Sampler:
    """The sampler of a model, ready to draw."""
    try:
        module = import_module(SAMPLERS[model.sampler])
    except ImportError as error:
        raise OffleashError(
            f"{model.sampler}: needs more than is installed ({error}); {EXTRAS.get(model.sampler, 'install it')}."
        ) from None
    opened: Sampler = module.open_sampler(model)
    return opened


def _parts(text: str) -> tuple[str, str, str]:
    """Name, revision and adapter; a path that exists may itself hold '@' and '+'."""
    if Path(text).exists():
        return text, "", ""
    head, plus, adapter = text.partition("+")
    if plus and not adapter:
        raise OffleashError(f"{text!r} ends in '+'; write PATH+ADAPTER with the folder or hub name of a PEFT adapter.")
    if Path(head).exists():
        return head, "", adapter
    found = re.fullmatch(r"(.+)@([^@/]+)", head)
    return (found[1], found[2], adapter) if found else (head, "", adapter)
