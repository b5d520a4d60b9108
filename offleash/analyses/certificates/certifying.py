"""A certificate begins in an empty folder or goes on; what would mix two models or two thresholds is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from offleash.data.certificates import CertificateFolder, Terms, is_certificate, read_terms
from offleash.data.folder import is_run, read_problems
from offleash.data.problem import as_problems
from offleash.drawing.differences import Difference, differences, refuse_other_problems, told
from offleash.errors import OffleashError
from offleash.samplers.sampler import Decoding


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
    refuse_other_problems(folder, old, asked, "folder", "certify")
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


def _differences(old: Terms, new: Terms) -> Iterator[Difference]:
    for name in ("epsilon", "vocabulary"):
        if getattr(old, name) != getattr(new, name):
            yield name, getattr(old, name), getattr(new, name)
    yield from differences(old.origin, new.origin)


def _refuse(folder: Path, pairs: list[Difference]) -> None:
    if pairs:
        raise OffleashError(
            f"{folder} certifies something else:\n{told(pairs, 'folder')}\n"
            "Give what is in the folder to go on with it, or certify into another folder with -o."
        )
