"""A certificate begins in an empty folder or goes on; what would mix two models or two thresholds is refused."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.samplers.sampler import Decoding
from offleash.tables.certificates import CertificateFolder, Terms, is_certificate, read_terms
from offleash.tables.folder import is_run, read_problems
from offleash.tables.problem import PROBLEMS, as_problems
from offleash.tables.run import Origin

SHOWN = 120  # characters of a value in a message
FREE = {"versions", "model"}  # of who answers: versions may change, the model is compared by its full name


def begin(folder: Path, problems: pl.DataFrame, terms: Terms) -> pl.DataFrame:
    """Write a new certificate's terms, or check that those in the folder are the same; the problems as asked."""
    asked = as_problems(problems).with_columns(pl.coalesce("prompt", "question").alias("prompt"))
    here = CertificateFolder(folder)
    if not is_run(folder):
        here.begin(folder.resolve().name, asked, terms)
        return asked
    _refuse_run(folder)
    if not here.whole():
        here.keep_problems(asked)
    old = read_problems(folder)
    _refuse_problems(folder, old.sort("problem"), asked.sort("problem"))
    _refuse(folder, [*_differences(read_terms(folder), terms)])
    return old


def refuse_words(folder: Path, model: str, decoding: Decoding, epsilon: float) -> None:
    """Refuse early what can be told before a model is loaded."""
    _refuse_run(folder)
    old = read_terms(folder)
    changed = replace(old.origin, model=model, decoding=stored_decoding(decoding))
    _refuse(folder, [*_differences(old, replace(old, epsilon=epsilon, origin=changed))])


def stored_decoding(decoding: Decoding) -> dict[str, object]:
    """A decoding as it is stored: 1 and 1.0 are the same temperature."""
    numbers = {"temperature": decoding.temperature, "top_p": decoding.top_p, "min_p": decoding.min_p}
    return {**decoding.document(), **{name: float(value) for name, value in numbers.items()}}


def _refuse_run(folder: Path) -> None:
    if not is_certificate(folder):
        raise OffleashError(f"{folder} holds the samples of a run, not a certificate; choose another folder with -o.")


def _differences(old: Terms, new: Terms) -> Iterator[tuple[str, object, object]]:
    for name in ("epsilon", "vocabulary"):
        if getattr(old, name) != getattr(new, name):
            yield name, getattr(old, name), getattr(new, name)
    yield from _changed("", _words(old.origin), _words(new.origin))
    yield from _changed("decoding: ", old.origin.decoding, new.origin.decoding)
    about = ({name: value for name, value in one.origin.about.items() if name not in FREE} for one in (old, new))
    yield from _changed("model: ", *about)


def _words(origin: Origin) -> dict[str, object]:
    return {
        "model": origin.model,
        "chat template (hash)": origin.template,
        "reasoning opened by the prompt": origin.thinking,
        "prompts (hash)": origin.prompts,
    }


def _changed(prefix: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[tuple[str, object, object]]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield prefix + name, old.get(name), new.get(name)


def _refuse(folder: Path, pairs: list[tuple[str, object, object]]) -> None:
    if pairs:
        lines = "\n".join(f"  {name}: {_shown(was)} in the folder, {_shown(now)} now" for name, was, now in pairs)
        raise OffleashError(
            f"{folder} certifies something else:\n{lines}\n"
            "Give what is in the folder to go on with it, or certify into another folder with -o."
        )


def _refuse_problems(folder: Path, old: pl.DataFrame, new: pl.DataFrame) -> None:
    strangers = sorted(set(old["problem"]) ^ set(new["problem"]))
    if strangers:
        raise OffleashError(
            f"{folder} holds {old.height} problems and this command asks {new.height}; {strangers[0]!r} is in one of "
            "them only. Give the same problems to go on, or certify into another folder with -o."
        )
    for column in PROBLEMS:
        for problem, was, now in zip(old["problem"], old[column].to_list(), new[column].to_list(), strict=True):
            if was != now:
                raise OffleashError(
                    f"{folder}: problem {problem!r} has another {column} now: {_shown(was)} in the folder, "
                    f"{_shown(now)} now. Give the same problems to go on, or certify into another folder with -o."
                )


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"
