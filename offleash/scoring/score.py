"""Score: the log-probability and entropy of a run's samples under a model, beside them; resumable, each sample once."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.data.beside import drop_without_samples
from offleash.data.facts import read_origin
from offleash.data.folder import append_to_run, open_run
from offleash.data.positions import positions_folder
from offleash.data.run import Origin, Run
from offleash.data.samples import SAMPLES
from offleash.data.scores import NAMED, same_model, scan_scores, scores_folder
from offleash.data.shards import SHARD, scan_shards
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.sampler import Decoding
from offleash.scoring.claim import claim, no_texts, no_verdicts, template_of
from offleash.scoring.shards import KEY, Selection, Shards
from offleash.scoring.summary import Summary, summaries

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

__all__ = ["ScoredRun", "Scoring", "Selection", "score_run"]


@dataclass(frozen=True)
class Scoring:
    """What samples are to be scored with."""

    model: str  # as the user names it
    decoding: Decoding
    name: str  # of the folder that the scores go to
    verifier: str | None = None  # whose verdicts split the summary, where a run has several


@dataclass(frozen=True)
class ScoredRun:
    """What the scores of a run come to."""

    folder: Path
    scores: Path
    scoring: Scoring
    new: int  # samples scored in this call
    groups: Mapping[str, Summary]
    reasons: Mapping[str, int]  # why samples have no sums
    verifier: str | None
    own: bool  # the run was drawn from this model
    compared: int  # of its own samples: those whose tokens were counted when they were drawn
    retokenised: int  # of these: those whose text has another number of tokens when it is read
    stopped_by_text: bool  # the run's decoding has stop texts: nothing says which samples ended by themselves
    other_template: bool  # prompts become another text than for the model that drew the run
    seconds: float


def score_run(
    folder: Path,
    scorer: "Scorer",
    scoring: Scoring,
    progress: Progress = silent,
    selection: Selection | None = None,
) -> ScoredRun:
    """Score every sample of a run folder, or those that are chosen, that has no score under this name yet."""
    started = time.monotonic()
    run = open_run(folder, verifier=scoring.verifier)  # before hours of work: it may ask for a verifier's name
    origin = read_origin(folder)
    stopped = bool(origin and origin.decoding.get("stop"))
    with append_to_run(folder) as opened:
        shards = opened.sample_shards()
        if not shards:
            raise no_texts(folder)
        claim(folder, scoring.name, scoring.model, scoring.decoding, scorer)
        drop_without_samples(folder, scores_folder(folder, scoring.name))
        drop_without_samples(folder, positions_folder(folder, scoring.name))
        chosen = selection or Selection()
        right = _right(run, chosen) if chosen.correct else None
        work = Shards(folder, scorer, scoring.name, scoring.decoding, chosen, right, not stopped, progress)
        new = work.all(shards)
    if not any(scores_folder(folder, scoring.name).glob(SHARD)):
        raise OffleashError(f"{folder} has no sample that is asked for (--first, --only): nothing was scored.")
    scores, samples = scan_scores(folder, scoring.name), scan_shards(folder / "samples", SAMPLES)
    own = origin is not None and _drew(origin, scorer)
    compared, retokenised = _token_counts(samples, scores) if own and not stopped else (0, 0)
    return ScoredRun(
        folder=folder,
        scores=scores_folder(folder, scoring.name),
        scoring=scoring,
        new=new,
        groups=summaries(scores, run.verdicts if run.verifier else None),
        reasons=_reasons(scores),
        verifier=run.verifier,
        own=own,
        compared=compared,
        retokenised=retokenised,
        stopped_by_text=stopped,
        other_template=origin is not None and origin.template != template_of(scorer),
        seconds=time.monotonic() - started,
    )


def _right(run: Run, chosen: Selection) -> pl.DataFrame:
    """Keys of the samples that the verifier found correct, of the problems that are chosen."""
    if run.verdicts is None or not run.verifier:
        raise no_verdicts(run.name)
    correct = pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value
    some = pl.lit(True) if chosen.problems is None else pl.col("problem").is_in(list(chosen.problems))
    return run.verdicts.filter(correct & some).select(KEY).collect(engine="streaming")


def _drew(origin: Origin, scorer: "Scorer") -> bool:
    """Whether a run was drawn from the model that scores it."""
    about = scorer.about
    return same_model(origin.about, {name: getattr(about, name) for name in (*NAMED, "fingerprint")})


def _token_counts(samples: pl.LazyFrame, scores: pl.LazyFrame) -> tuple[int, int]:
    """Samples whose tokens were counted twice, when drawn and when read; those of them where the counts differ."""
    both = samples.select(*KEY, drawn="tokens").join(scores.select(*KEY, "tokens"), on=KEY)
    known = both.filter(pl.col("drawn").is_not_null() & pl.col("tokens").is_not_null())
    compared, differ = known.select(pl.len(), (pl.col("drawn") != pl.col("tokens")).sum()).collect().row(0)
    return int(compared), int(differ)


def _reasons(scores: pl.LazyFrame) -> dict[str, int]:
    counted = scores.filter(pl.col("reason").is_not_null()).group_by("reason").len().sort("len", descending=True)
    return dict(counted.collect().iter_rows())
