"""The verb `score` as the command line and notebooks call it: arguments in, results out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.data.folder import folder_name
from offleash.data.scores import SCORES, Sums
from offleash.errors import OffleashError, unknown
from offleash.loading.arguments import run_folders
from offleash.problems.prompts import prompt_hash
from offleash.progress import Progress, silent
from offleash.samplers.models import Model, open_sampler
from offleash.samplers.sampler import Decoding
from offleash.scoring.claim import refuse_other_words, refuse_unscorable
from offleash.scoring.rows import ScoredRow, check_rows, score_rows
from offleash.scoring.score import ScoredRun, Scoring, score_run
from offleash.scoring.shards import Selection, frame_of
from offleash.scoring.summary import ALL, Summary, summaries

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer


CORRECT = "correct"


@dataclass(frozen=True)
class ScoredFile:
    """What the rows of a file come to."""

    path: Path
    model: str
    decoding: Decoding
    summary: Summary
    reasons: Mapping[str, int]


def selected(first: int | None = None, only: str | None = None) -> Selection:
    """Which samples to score, from plain words."""
    if only is not None and only != CORRECT:
        raise unknown("kind of samples to score alone", only, (CORRECT,))
    return Selection(first, only == CORRECT)


def score_folders(
    arguments: Sequence[str],
    model: Model,
    decoding: Decoding,
    name: str | None = None,
    verifier: str | None = None,
    progress: Progress = silent,
    selection: Selection | None = None,
) -> list[ScoredRun]:
    """Score run folders; what is refused is refused before the model is loaded, where that can be told."""
    _refuse_other_samplers(model)
    folders = run_folders(arguments)
    kept = folder_name(str(model)) if name is None else _refuse_other_name(name)
    scoring = Scoring(str(model), decoding, kept, verifier)
    for folder in folders:
        refuse_unscorable(folder, verifier, selection or Selection())
        refuse_other_words(folder, scoring.name, scoring.model, decoding)
    with _opened(model, progress) as scorer:
        return [score_run(folder, scorer, scoring, progress, selection) for folder in folders]


def score_file(
    path: Path,
    model: Model,
    decoding: Decoding,
    columns: Mapping[str, str] | None = None,
    each: Callable[[ScoredRow], None] = lambda _: None,
    progress: Progress = silent,
) -> ScoredFile:
    """Score a file of rows; `each` gets every row as it is scored."""
    _refuse_other_samplers(model)
    check_rows(path, columns or {})
    scored: list[tuple[str, Sums]] = []  # rows of one prompt are traces of one problem
    with _opened(model, progress) as scorer:
        for row in score_rows(path, scorer, decoding, columns or {}, progress):
            each(row)
            scored.append((prompt_hash(row.row.trace.prompt), row.sums))
    keys = pl.DataFrame({"problem": [problem for problem, _ in scored], "index": range(len(scored))})
    frame = frame_of(keys.cast({name: SCORES[name] for name in keys.columns}), [sums for _, sums in scored])
    counted = frame["reason"].drop_nulls().value_counts(sort=True)
    return ScoredFile(path, str(model), decoding, summaries(frame.lazy())[ALL], dict(counted.iter_rows()))


def _refuse_other_samplers(model: Model) -> None:
    if model.sampler != "hf":
        raise OffleashError(
            f"{model} cannot score texts: log-probability and entropy need the whole distribution of every token, "
            f"which only hf: gives. Name the model as hf:{model.name if model.sampler == 'vllm' else 'PATH'}."
        )


def _refuse_other_name(name: str) -> str:
    """The name that scores are kept under; refused where their folder would be called otherwise."""
    if folder_name(name) != name:
        raise OffleashError(
            "--name is the name of a folder: letters from A to Z, digits and _.@+-, with neither '-' nor '.' at its "
            f"ends; found {name!r}."
        )
    return name


@contextmanager
def _opened(model: Model, progress: Progress) -> "Iterator[Scorer]":
    progress(f"loading {model}")
    with closing(open_sampler(model)) as sampler:  # first: it says what is not installed
        from offleash.samplers.huggingface.scoring import Scorer

        yield Scorer.of(sampler)
