"""Flips: the problems whose class changes with the verifier, the extraction step or truncation, and what decides it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from offleash.comparing.align import match
from offleash.comparing.compare import Comparison
from offleash.comparing.flip_samples import CORRECT, DecidingSample, Integer, chosen, decided, fetched, truncated_of
from offleash.comparing.flip_ways import UNTOLD, Flags, Judged, Kind, Side, Untried, Way, sides_of, ways_of
from offleash.comparing.question import Question
from offleash.data.tally import Per
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.render.escape import clean
from offleash.stats.change import METRICS
from offleash.stats.classes import AFTER, BEFORE, ratio

SAMPLES = 3  # deciding samples shown of every problem and run
FETCHED = 200  # problems whose deciding samples are fetched: those first on the list
GOLD = 160  # characters


@dataclass(frozen=True)
class Alternative:
    """The table of classes under one other way to judge the same samples."""

    name: str
    kind: Kind | None  # None: as judged now
    cells: dict[str, int]  # P, E, S, O, U (undetermined)
    value: dict[str, float]
    flips: int
    review: bool  # whether its flips are put on the review list
    unchecked: int  # problems that keep their class because this verifier has not judged all their samples


@dataclass(frozen=True)
class Flip:
    """A problem whose class depends on how its samples are judged."""

    problem: str
    gold: str | None
    now: str
    under: dict[str, str]  # alternative: class, of those that differ
    review: bool  # False: it changes only when a whole strict format is not read
    correct: tuple[int, int]  # samples among the first k, before and after
    deciding: int  # samples that would have to be looked at to settle it
    samples: tuple[DecidingSample, ...]


@dataclass(frozen=True)
class Flips:
    """The review list of a comparison, the one to look at first on top, and the tables it was drawn from."""

    before: str
    after: str
    k: int
    now: Alternative
    alternatives: tuple[Alternative, ...]
    untried: tuple[Untried, ...]
    problems: tuple[Flip, ...]

    @property
    def to_review(self) -> tuple[Flip, ...]:
        return tuple(flip for flip in self.problems if flip.review)


def can_flip(asked: Question) -> bool:
    """Whether the classes asked for are those of problems by their first k samples."""
    return asked.per is Per.PROBLEM and not asked.drop_unread


def flippable(asked: Question) -> None:
    """Refuse a question whose classes are not those of problems by their first k samples."""
    if asked.per is not Per.PROBLEM:
        raise OffleashError(f"--flips lists problems, and --per {asked.per.value} has no class O; use --per problem.")
    if asked.drop_unread:
        raise OffleashError("--flips judges the same samples in several ways; leave out --unread drop.")


def flips(one: Comparison, before: Judged, after: Judged, shown: int = SAMPLES) -> Flips:
    """Which classes of a comparison change when its samples are judged otherwise, and the samples that decide it."""
    flippable(one.question)
    matched = match([one.before, one.after])
    sides = sides_of(one, (before, after), matched.own)
    now, ways, untried = ways_of(one, sides)
    listed = _listed(one, now, ways, dict(matched.problems.select("problem", "gold").iter_rows()))
    rows_F = np.array([row for row, _ in listed[:FETCHED]], dtype=np.int64)
    seen = [_samples(side, r, now, ways, rows_F, shown) for r, side in enumerate(sides)]
    problems = (replace(flip, samples=seen[BEFORE].get(row, ()) + seen[AFTER].get(row, ())) for row, flip in listed)
    return Flips(
        before=one.before.name,
        after=one.after.name,
        k=one.change.k,
        now=_table(now, now),
        alternatives=tuple(_table(way, now) for way in ways),
        untried=tuple(untried),
        problems=tuple(problems),
    )


def _listed(one: Comparison, now: Way, ways: Sequence[Way], gold: Mapping[str, str | None]) -> list[tuple[int, Flip]]:
    """The flips with their rows: E and S before P and O, then those settled by the fewest samples."""
    out = []
    for row in np.flatnonzero(_changed(ways, now)):
        turned = [way for way in ways if way.class_P[row] != now.class_P[row]]
        review = any(way.review for way in turned)
        counted = [way for way in turned if way.review] if review else turned
        gap_WR = np.abs(np.stack([way.correct_PR[row] - now.correct_PR[row] for way in counted]))
        problem = str(one.tally.problem_P[row])
        answer = gold.get(problem)
        flip = Flip(
            problem=problem,
            gold=None if answer is None else clean(answer[:GOLD]),
            now=str(now.class_P[row]),
            under={way.name: str(way.class_P[row]) for way in turned},
            review=review,
            correct=(int(now.correct_PR[row, BEFORE]), int(now.correct_PR[row, AFTER])),
            deciding=int(gap_WR.max(axis=0).sum()),
            samples=(),
        )
        out.append((int(row), flip))
    return sorted(
        out, key=lambda pair: (not pair[1].review, pair[1].now not in "ES", pair[1].deciding, pair[1].problem)
    )


def _changed(ways: Sequence[Way], now: Way) -> Flags:
    """The problems whose class is another in some of these ways."""
    changed_P = np.zeros(len(now.class_P), dtype=bool)
    for way in ways:
        changed_P |= way.class_P != now.class_P
    return changed_P


def _samples(
    side: Side, r: int, now: Way, ways: Sequence[Way], rows_F: Integer, shown: int
) -> dict[int, tuple[DecidingSample, ...]]:
    """The deciding samples of one run, by row: those that one way counts as correct and the other does not."""
    reviewed_P = _changed([way for way in ways if way.review], now)
    moved = {}
    for way in ways:
        counts_P = way.told_P & (way.state_PR[:, r] != now.state_PR[:, r]) & (way.review | ~reviewed_P)
        moved[way.name] = rows_F[counts_P[rows_F]]
    only = np.unique(np.concatenate([*moved.values(), np.zeros(0, dtype=np.int64)]))
    if side.window is None or not only.size:
        return {}
    own = decided(side.window, side.window.verdicts, only)
    right, key = own.filter(CORRECT), ["row", "index"]
    found = []
    for way in ways:
        here = pl.col("row").is_in(moved[way.name].tolist())
        if not moved[way.name].size:
            continue
        if way.kind is Kind.VERIFIER:
            theirs = decided(side.window, side.judged.verdicts[way.verifier], moved[way.name]).filter(CORRECT)
            found += [right.filter(here).join(theirs, on=key, how="anti"), theirs.join(right, on=key, how="anti")]
        elif way.kind is Kind.TRUNCATED:
            found.append(right.filter(here).join(truncated_of(side.window, moved[way.name]), on=key, how="semi"))
        elif way.kind is Kind.FAILED:
            found.append(own.filter(here & (pl.col("verdict") == Verdict.FAILED.value)))
        else:
            found.append(right.filter(here & pl.col("step").is_in(sorted(way.left_out))))
    others = {name: frame for name, frame in side.judged.verdicts.items() if name != side.run.verifier}
    return fetched(side.window, chosen(pl.concat(found), shown), others)


def _table(way: Way, now: Way) -> Alternative:
    cells = {letter: int((way.class_P == letter).sum()) for letter in ("P", "E", "S", "O", UNTOLD)}
    P, E, S, O = (cells[letter] for letter in "PESO")  # noqa: E741
    value = {name: float(ratio(name, P, E, S, P + E + S + O)) for name in METRICS}
    turned = int((way.class_P != now.class_P).sum())
    return Alternative(way.name, way.kind, cells, value, turned, way.review, int((~way.told_P).sum()))
