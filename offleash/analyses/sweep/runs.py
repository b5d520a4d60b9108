"""The grid of a sweep: decodings from plain words, a label for every model, and where each run of the family stands."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from offleash.data.facts import read_origin
from offleash.data.folder import folder_name, is_run
from offleash.errors import OffleashError
from offleash.samplers.models import SAMPLERS, Model
from offleash.samplers.sampler import Decoding

USUAL = (0.6, 0.8, 1.0, 1.2)  # temperatures where none is named
LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")  # it is a folder's name: never '.' or '..', nor below another
NAMED = re.compile(rf"(.*?)=((?:{'|'.join(SAMPLERS)}):.*)", re.DOTALL)


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Numbers with commas between them, in their order, each once."""
    found: dict[float, None] = {}
    for word in text.split(","):
        try:
            found[float(word)] = None
        except ValueError:
            raise OffleashError(
                f"{option} takes numbers with commas between them, for example {option} 0.6,1.0; found {word!r} in "
                f"{option} {text}."
            ) from None
    return tuple(found)


def grid(decoding: Decoding, temperatures: Sequence[float], top_ps: Sequence[float]) -> tuple[Decoding, ...]:
    """The decodings of a sweep in the order given: every temperature at the first top-p, then at the next."""
    return tuple(replace(decoding, temperature=warm, top_p=share) for share in top_ps for warm in temperatures)


def way(decoding: Decoding) -> str:
    """What of a decoding varies in a sweep, in words."""
    share = f", top-p {decoding.top_p:g}" if decoding.top_p < 1 else ""
    return f"temperature {decoding.temperature:g}{share}"


def place(folder: Path, label: str, decoding: Decoding) -> Path:
    """The run folder of a model at a decoding: what else a decoding holds is the same in all of a family."""
    return folder / label / f"t{decoding.temperature:.10g}-p{decoding.top_p:.10g}"


def split_label(text: str) -> tuple[str, str]:
    """A label and a model from NAME=MODEL; no label where none is named."""
    if text.partition(":")[0] in SAMPLERS or Path(text).exists():
        return "", text
    found = NAMED.fullmatch(text)
    if found:
        _refuse_label(found[1], found[2])
        return found[1], found[2]
    label, equals, model = text.partition("=")  # who is to run it is missing or misspelt, which is told of the model
    return (label, model) if equals and model and LABEL.fullmatch(label) else ("", text)


def labels(models: Sequence[tuple[str, Model]], folder: Path) -> tuple[str, ...]:
    """A name for every model, the one under which it stands in the folder already if it does.

    Else the one given, or the last part of its path that no other model has: two models may both be called `model`.
    """
    texts = [str(model) for _, model in models]
    if len(set(texts)) < len(texts):
        raise OffleashError(
            f"The two models are the same, {texts[0]}; a sweep compares two. What chance alone does shows "
            "`offleash study` with one model given twice."
        )
    there = _there(folder)
    taken: dict[str, str] = {label: model for model, label in there.items() if model not in texts}
    out = []
    for (given, model), text in zip(models, texts, strict=True):
        if given:
            _refuse_label(given, text)
        others = [_parts(other) for _, other in models if other is not model]
        known = there.get(text)
        label = known if known and given in ("", known) else given or _free(model, others, taken, text)
        if taken.setdefault(label, text) != text:
            raise OffleashError(f"{folder / label} belongs to {taken[label]}; give {text} another name: NAME={text}.")
        out.append(label)
    return tuple(out)


def _refuse_label(label: str, model: str) -> None:
    if not LABEL.fullmatch(label):
        raise OffleashError(
            f"The name of a model in a sweep is that of its folder: letters from A to Z, digits and _.+-, of which a "
            f"letter, a digit or _ comes first; found {label!r}. For example: base={model}."
        )


def _free(model: Model, others: Sequence[list[str]], taken: dict[str, str], text: str) -> str:
    """The first name that is neither taken nor that of another model here."""
    clash = {names[0] for names in others if names}
    return next(name for name in _names(model) if name not in clash and taken.get(name, text) == text)


def _names(model: Model) -> Iterator[str]:
    parts = _parts(model)
    yield from parts
    number = 2
    while True:
        yield f"{parts[0] if parts else 'model'}-{number}"
        number += 1


def _parts(model: Model) -> list[str]:
    """The parts of a model's name from the end, as folders may be called; a revision or an adapter is told first."""
    told = f"{model.name}@{model.revision}" if model.revision else model.name
    told = (model.adapter or told).removesuffix(".json")
    return [folder_name(part) for part in reversed(re.split(r"[/\\#]", told.rstrip("/\\"))) if part.strip(". ")]


def _there(folder: Path) -> dict[str, str]:
    """Models that have runs in the folder already, and their labels."""
    found: dict[str, str] = {}
    for run in sorted(folder.glob("*/t*-p*")) if folder.is_dir() else []:
        origin = read_origin(run) if is_run(run) else None
        if origin is not None:
            found.setdefault(origin.model, run.parent.name)
    return found
