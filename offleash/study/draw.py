"""Draw: samples of every problem from a model into a run folder, each exactly once, resumable after a kill."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.samplers.sampler import Decoding, Sampler
from offleash.study.bench import Bench
from offleash.study.continuing import Begun, begin, origin_of
from offleash.study.exchange import Exchange, Verification
from offleash.study.load import Progress, silent
from offleash.study.pace import Pace, peak_memory_mb
from offleash.study.scheduling import Schedule, Stage
from offleash.study.standing import Stands, drop_orphans, standing
from offleash.study.subjects import refuse_unreadable, subjects_of
from offleash.study.verify import Verifying, judge_of, ladder_for, stored_name, verify_shards
from offleash.tables.folder import RunFolder, claim_run
from offleash.tables.run import Budget

MOST = 16_384 * 64  # samples a problem


@dataclass(frozen=True)
class Drawing:
    """What is to be drawn."""

    model: str  # as the user names it: part of the run's seeds
    k: int
    until: int = 0  # stop a problem at this many successes; 0: draw all k
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MOST:
            raise OffleashError(f"k is a number of samples a problem from 1 to {MOST:,}; found -k {self.k}.")
        if self.until < 0:
            raise OffleashError(f"--until is a number of successes, 1 or more; found --until {self.until}.")
        if self.seed < 0:
            raise OffleashError(f"A seed is a whole number from 0; found --seed {self.seed}.")


@dataclass(frozen=True)
class Prospect:
    """What is about to be drawn."""

    folder: Path
    drawing: Drawing
    decoding: Decoding
    problems: int
    settled: int  # that need no more samples
    samples: int  # that are there already
    most: int  # samples that there can be in the end
    verifier: str | None


@dataclass(frozen=True)
class DrawnRun:
    """What a draw came to. Samples, tokens and truncated are those of the whole run."""

    folder: Path
    drawing: Drawing
    problems: int
    samples: int
    new: int  # samples of this draw
    tokens: int
    truncated: int
    settled: int
    reached: int | None  # problems with a success; None where nothing was judged
    failed: int  # requests
    missing: int  # samples that they asked for
    reasons: Mapping[str, int]
    seconds: float
    forwarded: int | None
    peak_memory_mb: float
    verifier: str | None
    doubt: str | None = None  # what may be a fault of the sampler, and may not


Announce = Callable[[Prospect], None]


def unannounced(_: Prospect) -> None:
    """A draw that nobody watches."""


def draw(
    folder: Path,
    problems: pl.DataFrame,
    sampler: Sampler,
    decoding: Decoding,
    drawing: Drawing,
    verifying: Verifying | None = None,
    progress: Progress = silent,
    announce: Announce = unannounced,
) -> DrawnRun:
    """Draw what is missing of a run; with `until`, samples are judged meanwhile, and verdicts stand beside them."""
    if decoding.temperature == 0 and drawing.k > 1:
        raise OffleashError(
            f"At temperature 0 all {drawing.k:,} samples of a problem would be the same text; "
            "give --temperature 1, or -k 1."
        )
    verifying = verifying or Verifying()
    with claim_run(folder) as run:
        origin = origin_of(sampler, drawing.model, decoding, drawing.seed, drawing.until, problems)
        begun = begin(run, problems, origin, Budget(drawing.k, drawing.until))
        drop_orphans(run)
        with _judging(run, begun, drawing, verifying, progress) as verification:
            stands = standing(run, verification.name if verification else None)
            names = begun.problems["problem"].to_list()
            schedule = Schedule(names, stands.problems, begun.chunks, drawing.k, drawing.until)
            announce(_prospect(folder, drawing, decoding, stands, schedule, verification))
            exchange = Exchange(run, begun, sampler, decoding, schedule, verification)
            pace = Pace(progress, schedule, stands.samples)
            exchange.work(pace)
            seconds = time.monotonic() - pace.started
    writer, reasons = exchange.writer, exchange.reasons
    return DrawnRun(
        folder=folder,
        drawing=drawing,
        problems=len(schedule.records),
        samples=stands.samples + writer.samples,
        new=writer.samples,
        tokens=stands.tokens + writer.tokens,
        truncated=stands.truncated + writer.truncated,
        settled=schedule.count(Stage.SETTLED),
        reached=schedule.reached if verification else None,
        failed=reasons.total(),
        missing=exchange.missing,
        reasons=dict(reasons.most_common()),
        seconds=seconds,
        forwarded=sampler.forwarded,
        peak_memory_mb=peak_memory_mb(),
        verifier=verification.name if verification else None,
        doubt=exchange.duplicates.doubt,
    )


@contextmanager
def _judging(
    run: RunFolder, begun: Begun, drawing: Drawing, options: Verifying, progress: Progress
) -> Iterator[Verification | None]:
    """The judge of a draw that stops early, with all that stands in the run judged."""
    if not drawing.until:
        yield None
        return
    ladder = ladder_for(run.path, options.ladder)
    subjects = subjects_of(begun.problems, options.verifier, ladder, str(run.path))
    with judge_of(replace(options, ladder=ladder)) as judge:
        refuse_unreadable(judge, subjects, str(run.path))
        name = stored_name(judge, [verifier for _, verifier in subjects.values()])
        verify_shards(run, judge, subjects, ladder.opened, progress)
        yield Verification(name, lambda crew: Bench(judge, subjects, ladder.opened, crew.events))


def _prospect(
    folder: Path,
    drawing: Drawing,
    decoding: Decoding,
    stands: Stands,
    schedule: Schedule,
    verification: Verification | None,
) -> Prospect:
    return Prospect(
        folder=folder,
        drawing=drawing,
        decoding=decoding,
        problems=len(schedule.records),
        settled=schedule.count(Stage.SETTLED),
        samples=stands.samples,
        most=schedule.most,
        verifier=verification.name if verification else None,
    )
