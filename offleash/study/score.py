"""Score: the log-probability and entropy of a run's samples under a model, beside them; resumable, each sample once."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.errors import OffleashError
from offleash.samplers.sampler import FINISHED, Decoding
from offleash.study.load import Progress, silent
from offleash.study.pace import duration
from offleash.study.score_claim import claim, template_of
from offleash.study.score_summary import Summary, summaries
from offleash.tables.folder import append_to_run, open_run, read_origin, read_problems
from offleash.tables.run import Origin
from offleash.tables.samples import SAMPLES
from offleash.tables.scores import (
    SCORES,
    Sums,
    Trace,
    drop_scores_without_samples,
    scan_scores,
    scores_folder,
    scores_on,
    write_scores,
)
from offleash.tables.shards import check_schema, scan_shards

if TYPE_CHECKING:
    from offleash.samplers.engine.scoring import Scorer

SAMPLES_AT_A_TIME = 4_096
BYTES_AT_A_TIME = 16 << 20  # of text
NO_TEXT = "the run keeps no text of it"
NO_PROMPT = "its problem has no text to ask"
IMAGES = "its problem has images, which score does not show"
KEY = ["problem", "index"]


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


def score_run(folder: Path, scorer: "Scorer", scoring: Scoring, progress: Progress = silent) -> ScoredRun:
    """Score every sample of a run folder that has no score under this name yet."""
    started = time.monotonic()
    run = open_run(folder, verifier=scoring.verifier)  # before hours of work: it may ask for a verifier's name
    origin = read_origin(folder)
    stopped = bool(origin and origin.decoding.get("stop"))
    with append_to_run(folder) as opened:
        shards = opened.sample_shards()
        if not shards:
            raise OffleashError(
                f"{folder} keeps no texts of samples, so there is nothing to score; import with --texts."
            )
        claim(folder, scoring.name, scoring.model, scoring.decoding, scorer)
        drop_scores_without_samples(folder, scoring.name)
        work = _Work(folder, scorer, scoring, _asked(folder), not stopped, progress, shards)
        for shard in shards:
            work.score_shard(shard)
    scores, samples = scan_scores(folder, scoring.name), scan_shards(folder / "samples", SAMPLES)
    own = origin is not None and _drew(origin, scorer)
    compared, retokenised = _token_counts(samples, scores) if own and not stopped else (0, 0)
    return ScoredRun(
        folder=folder,
        scores=scores_folder(folder, scoring.name),
        scoring=scoring,
        new=work.new,
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


def frame_of(keys: pl.DataFrame, sums: list[Sums]) -> pl.DataFrame:
    """Scores (SCORES) of samples from their sums, in the same order."""
    columns = {one.name: [getattr(row, one.name) for row in sums] for one in fields(Sums)}
    columns["reason"] = [reason or None for reason in columns["reason"]]
    return pl.DataFrame({"problem": keys["problem"], "index": keys["index"], **columns}, schema=SCORES)


class _Work:
    """The scoring of one run, shard by shard."""

    def __init__(
        self,
        folder: Path,
        scorer: "Scorer",
        scoring: Scoring,
        asked: Mapping[str, tuple[str | None, bool]],
        ends: bool,
        progress: Progress,
        shards: list[Path],
    ) -> None:
        self._folder, self._scorer, self._scoring = folder, scorer, scoring
        self._asked, self._ends, self._progress = asked, ends, progress
        self._samples = sum(pl.scan_parquet(shard).select(pl.len()).collect().item() for shard in shards)
        self._standing, self._started = 0, time.monotonic()
        self.new = 0

    def score_shard(self, shard: Path) -> None:
        """The scores of one shard of samples: those that stand are kept, those that are missing are made."""
        check_schema(shard, SAMPLES)
        standing = scores_on(self._folder, self._scoring.name, shard.name)
        keys = pl.read_parquet(shard, columns=KEY)
        stranger = keys.filter(~pl.col("problem").is_in(list(self._asked)))
        if stranger.height:
            raise OffleashError(f"{shard} has samples of {stranger['problem'][0]!r}, which is no problem of its run.")
        parts = []
        if standing is not None:
            parts = [standing.join(keys, on=KEY, how="semi")]
            self._standing += parts[0].height
            if parts[0].height == keys.height:
                return
        for start, size in _slices(shard):
            rows = pl.scan_parquet(shard).select(*KEY, "text", "finish").slice(start, size).collect()
            if parts and standing is not None:
                rows = rows.join(parts[0], on=KEY, how="anti")
            if rows.height:
                parts.append(frame_of(rows, self._sums(rows)))
                self._tell(rows.height)
        write_scores(self._folder, self._scoring.name, pl.concat(parts), shard.name)

    def _sums(self, rows: pl.DataFrame) -> list[Sums]:
        found: list[Sums] = []
        traces: list[tuple[int, Trace]] = []
        for problem, text, finish in rows.select("problem", "text", "finish").iter_rows():
            prompt, images = self._asked[problem]
            if prompt is None or text is None or images:
                found.append(Sums(None, reason=NO_PROMPT if prompt is None else NO_TEXT if text is None else IMAGES))
                continue
            traces.append((len(found), Trace(prompt, text, self._ends and finish == FINISHED)))
            found.append(Sums(None))
        scored = self._scorer.score([trace for _, trace in traces], self._scoring.decoding)
        for (place, _), sums in zip(traces, scored, strict=True):
            found[place] = sums
        return found

    def _tell(self, samples: int) -> None:
        self.new += samples
        left = self._samples - self._standing - self.new
        seconds = (time.monotonic() - self._started) * left / self.new
        self._progress(
            f"{self._folder.name}: {self._standing + self.new:,} of {self._samples:,} samples scored, "
            f"about {duration(seconds)} left"
        )


def _asked(folder: Path) -> dict[str, tuple[str | None, bool]]:
    """What is asked for each problem, and whether it shows images."""
    problems = read_problems(folder).select("problem", pl.coalesce("prompt", "question"), "images")
    found = {problem: (prompt, bool(images)) for problem, prompt, images in problems.iter_rows()}
    if all(prompt is None for prompt, _ in found.values()):
        raise OffleashError(
            f"{folder} keeps no texts of its problems, and a sample is scored after what was asked; "
            "import logs that keep the questions, or score rows of prompt and text (offleash score FILE.jsonl)."
        )
    return found


def _slices(shard: Path) -> Iterator[tuple[int, int]]:
    """Parts of a shard that fit into memory as texts and as tokens."""
    sizes = pl.scan_parquet(shard).select(pl.col("text").str.len_bytes().fill_null(0)).collect().to_series()
    start = size = held = 0
    for bytes_ in sizes:
        if size and (size == SAMPLES_AT_A_TIME or held + bytes_ > BYTES_AT_A_TIME):
            yield start, size
            start, size, held = start + size, 0, 0
        size, held = size + 1, held + bytes_
    if size:
        yield start, size


def _drew(origin: Origin, scorer: "Scorer") -> bool:
    """Whether a run was drawn from the model that scores it, by its weights where both can be seen."""
    about, drawn = scorer.about, origin.about
    if about.fingerprint and drawn.get("fingerprint"):
        return about.fingerprint == drawn["fingerprint"]
    return all(drawn.get(name) == getattr(about, name) for name in ("model", "revision", "adapter"))


def _token_counts(samples: pl.LazyFrame, scores: pl.LazyFrame) -> tuple[int, int]:
    """Samples whose tokens were counted twice, when drawn and when read; those of them where the counts differ."""
    both = samples.select(*KEY, drawn="tokens").join(scores.select(*KEY, "tokens"), on=KEY)
    known = both.filter(pl.col("drawn").is_not_null() & pl.col("tokens").is_not_null())
    compared, differ = known.select(pl.len(), (pl.col("drawn") != pl.col("tokens")).sum()).collect().row(0)
    return int(compared), int(differ)


def _reasons(scores: pl.LazyFrame) -> dict[str, int]:
    counted = scores.filter(pl.col("reason").is_not_null()).group_by("reason").len().sort("len", descending=True)
    return dict(counted.collect().iter_rows())
