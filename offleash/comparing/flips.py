"""Flips: problems whose class changes with the verifier, extraction step or truncation, and what decides it.

First the alternative ways to judge the same samples, then the review list of the problems that flip under them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.comparing.align import match
from offleash.comparing.compare import Comparison
from offleash.comparing.flip_samples import (
    CORRECT,
    DecidingSample,
    Integer,
    SampleWindow,
    WindowCounts,
    chosen,
    decided,
    fetched,
    held,
    open_window,
    tells_endings,
    truncated_correct,
    truncated_of,
)
from offleash.comparing.question import Question
from offleash.data.run import Run
from offleash.data.tally import Per
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.render.escape import clean
from offleash.stats.change import METRICS, states
from offleash.stats.support_classes import AFTER, BEFORE, IN, OUT, UNDETERMINED, Rule, State, ratio

# Alternatives: another verifier, fewer extraction steps, truncated samples as wrong, failed ones as correct.


STRICT = ("tag", "boxed", "hashes", "code")  # steps that read what the model itself marked as its answer
UNTOLD = "U"  # the class of a problem that a rule cannot place, or whose record stopped too early to tell

Flags = NDArray[np.bool_]
Letters = NDArray[np.str_]


class AlternativeKind(StrEnum):
    VERIFIER = "verifier"  # another verifier's verdicts
    STRICT = "strict"  # only answers read by a strict step count
    STEP = "step"  # answers read by one step do not count
    TRUNCATED = "truncated"  # samples cut at the token limit do not count as correct
    FAILED = "failed"  # verdicts that failed count as correct; as wrong they count now


@dataclass(frozen=True)
class StoredVerdicts:
    """Where a run is, and its verdicts by every verifier whose verdicts its folder holds."""

    source: str = ""  # as a command would name it
    folder: bool = False  # False: a log, which holds what one tool said
    verdicts: Mapping[str, pl.LazyFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class UntriedAlternative:
    """An alternative that these runs cannot tell, why, and what would make it possible."""

    what: str
    reason: str
    next_step: str | None = None


@dataclass(frozen=True)
class Side:
    """One run of the pair; `window` is None for bare counts, of which nothing more can be told."""

    run: Run
    judged: StoredVerdicts
    window: SampleWindow | None
    now: WindowCounts

    @property
    def place(self) -> str:
        return self.judged.source or self.run.name


@dataclass(frozen=True)
class JudgingAlternative:
    """One way to judge the first k samples of both runs: its counts, and the state and class they give."""

    name: str
    kind: AlternativeKind | None
    correct_PR: Integer
    judged_PR: Integer
    state_PR: State
    class_P: Letters
    told_P: Flags  # False: not all samples that are judged now were judged this way
    left_out: frozenset[str] = frozenset()  # steps that do not count
    verifier: str = ""

    @property
    def review(self) -> bool:
        """Leaving out the format in which a model marks its answers says nothing of how they were read."""
        return not (self.kind is AlternativeKind.STEP and self.left_out <= set(STRICT))


def sides_of(one: Comparison, judged: Sequence[StoredVerdicts], own: Sequence[pl.DataFrame]) -> list[Side]:
    """The two runs of a comparison with what their first k samples hold; `own` has their names of the problems."""
    runs = zip((one.before, one.after), judged, own, strict=True)
    return [_side(one, r, run, told, names) for r, (run, told, names) in enumerate(runs)]


def ways_of(
    one: Comparison, sides: Sequence[Side]
) -> tuple[JudgingAlternative, list[JudgingAlternative], list[UntriedAlternative]]:
    """The way the samples are judged now, every other way that these runs can tell, and what they cannot tell."""
    correct_PR, judged_PR = (_both(sides, name) for name in ("correct_P", "judged_P"))
    now = _way(one, None, "as judged now", None, correct_PR, judged_PR)
    untried: list[UntriedAlternative] = []
    ways = [
        *_by_verifier(one, now, sides, untried),
        *_by_step(one, now, sides, untried),
        *_without_truncated(one, now, sides, untried),
        *_with_failed(one, now, sides, untried),
    ]
    return now, ways, untried


def _side(one: Comparison, r: int, run: Run, judged: StoredVerdicts, names: pl.DataFrame) -> Side:
    tally, k = one.tally, one.change.k
    if run.verdicts is None:
        zero_P = np.zeros(len(tally), dtype=np.int64)
        return Side(run, judged, None, WindowCounts(np.full_like(zero_P, k), tally.head_PR[:, r], zero_P, {}, False))
    window = open_window(run, names, tally.problem_P, k, tally.stopped_PR[:, r])
    return Side(run, judged, window, held(window, window.verdicts))


def _both(sides: Sequence[Side], name: str) -> Integer:
    return np.stack([getattr(side.now, name) for side in sides], axis=1)


def _way(
    one: Comparison,
    now: "JudgingAlternative | None",
    name: str,
    kind: AlternativeKind | None,
    correct_PR: Integer,
    judged_PR: Integer,
    left_out: frozenset[str] = frozenset(),
    verifier: str = "",
) -> JudgingAlternative:
    """The states and classes of these counts; a problem that was not wholly judged this way keeps its class."""
    seen, k = one.question.rule is Rule.SEEN, one.change.k
    if seen:
        out_PR = np.where(judged_PR >= k, OUT, UNDETERMINED)  # a record that stopped early tells no more than this
        state_PR = np.where(correct_PR >= 1, IN, out_PR).astype(np.int8)
    else:
        counted = replace(one.tally, drawn_PR=np.full_like(correct_PR, k), correct_PR=correct_PR)
        state_PR = states(counted, one.question.rule, k, one.question.tau, one.question.zeta)
    whole_PR = np.ones_like(correct_PR, dtype=bool) if now is None else judged_PR >= now.judged_PR
    enough_PR = whole_PR | (correct_PR >= 1) if seen else whole_PR
    told_P: Flags = np.asarray(enough_PR.all(axis=1))
    letter_P = _letters(state_PR)
    class_P = letter_P if now is None else np.where(told_P, letter_P, now.class_P)
    return JudgingAlternative(name, kind, correct_PR, judged_PR, state_PR, class_P, told_P, left_out, verifier)


def _letters(state_PR: State) -> Letters:
    before_P, after_P = state_PR[:, BEFORE] == IN, state_PR[:, AFTER] == IN
    letter_P = np.where(before_P, np.where(after_P, "P", "S"), np.where(after_P, "E", "O"))
    return np.where((state_PR == UNDETERMINED).any(axis=1), UNTOLD, letter_P)


def _by_verifier(
    one: Comparison, now: JudgingAlternative, sides: Sequence[Side], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    known = [set(side.judged.verdicts) for side in sides]
    present = {side.run.verifier for side in sides}
    shared = sorted(name for name in known[BEFORE] & known[AFTER] if present != {name})
    also = "math" if any((name or "").startswith("string") for name in present) else "string"
    for side in sides:
        if not side.judged.folder:
            step = f"offleash import {side.place} -o RUN, then offleash verify RUN --also {also}"
            untried.append(UntriedAlternative("another verifier", f"{side.run.name} is no run folder", step))
    if not shared and all(side.judged.folder for side in sides):
        step = f"offleash verify {sides[BEFORE].place} {sides[AFTER].place} --also {also}"
        untried.append(UntriedAlternative("another verifier", "only one verifier has judged both runs", step))
    for side, other, names in ((sides[0], sides[1], known[0] - known[1]), (sides[1], sides[0], known[1] - known[0])):
        for name in sorted(names - present) if other.judged.folder else ():
            again = f"offleash verify {other.place} --also {name.split('@')[0]}" if "@" in name else None
            untried.append(
                UntriedAlternative(f"verifier {name}", f"it judged {side.run.name} and not {other.run.name}", again)
            )
    ways = []
    for name in shared:
        counts = [held(side.window, side.judged.verdicts[name]) for side in sides if side.window is not None]
        correct_PR, judged_PR = (np.stack([getattr(c, f) for c in counts], axis=1) for f in ("correct_P", "judged_P"))
        ways.append(_way(one, now, f"verifier {name}", AlternativeKind.VERIFIER, correct_PR, judged_PR, verifier=name))
    return ways


def _by_step(
    one: Comparison, now: JudgingAlternative, sides: Sequence[Side], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    for side in sides:
        if not side.now.names_steps:
            step = f"offleash verify {side.place}" if side.judged.folder else None
            untried.append(UntriedAlternative("extraction steps", f"the verdicts of {side.run.name} name none", step))
    steps = sorted({step for side in sides for step in side.now.by_step if step})
    if not steps:
        return []
    loose = frozenset(steps) - set(STRICT)
    choices = [("only strict steps", AlternativeKind.STRICT, loose)]
    choices += [(f"without step {step}", AlternativeKind.STEP, frozenset({step})) for step in steps]
    ways = []
    for name, kind, left_out in choices:
        gone = [
            sum((side.now.by_step.get(step, 0) for step in left_out), np.zeros_like(side.now.correct_P))
            for side in sides
        ]
        ways.append(_way(one, now, name, kind, now.correct_PR - np.stack(gone, axis=1), now.judged_PR, left_out))
    return ways


def _without_truncated(
    one: Comparison, now: JudgingAlternative, sides: Sequence[Side], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    what, truncated_PR = "truncated samples", one.tally.truncated_PR
    for r, side in enumerate(sides):
        if not truncated_PR[:, r].any() and not tells_endings(side.run):
            untried.append(UntriedAlternative(what, f"{side.run.name} does not say how its samples ended"))
    if not truncated_PR.any():
        if not untried or untried[-1].what != what:
            untried.append(UntriedAlternative(what, "no sample was cut at the token limit"))
        return []
    # by the rule `seen` a problem is lost only if every correct sample was cut: the others need no join
    candidate_PR = (truncated_PR > 0) & (now.correct_PR > 0)
    if one.question.rule is Rule.SEEN:
        candidate_PR &= now.correct_PR <= truncated_PR
    cut = [
        truncated_correct(side.window, np.flatnonzero(candidate_PR[:, r])) if side.window else 0 * now.correct_PR[:, r]
        for r, side in enumerate(sides)
    ]
    correct_PR = now.correct_PR - np.stack(cut, axis=1)
    return [_way(one, now, "truncated left out", AlternativeKind.TRUNCATED, correct_PR, now.judged_PR)]


def _with_failed(
    one: Comparison, now: JudgingAlternative, sides: Sequence[Side], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    failed_PR = _both(sides, "failed_P")
    if not failed_PR.any():
        untried.append(UntriedAlternative("failed verdicts", "no verdict failed"))
        return []
    return [_way(one, now, "failed as correct", AlternativeKind.FAILED, now.correct_PR + failed_PR, now.judged_PR)]


# The review list: problems that flip, those to look at first on top, with the samples that decide.


SAMPLES = 3  # deciding samples shown of every problem and run
FETCHED = 200  # problems whose deciding samples are fetched: those first on the list
GOLD = 160  # characters


@dataclass(frozen=True)
class Alternative:
    """The table of classes under one other way to judge the same samples."""

    name: str
    kind: AlternativeKind | None  # None: as judged now
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
    untried: tuple[UntriedAlternative, ...]
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


def flips(one: Comparison, before: StoredVerdicts, after: StoredVerdicts, shown: int = SAMPLES) -> Flips:
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


def _listed(
    one: Comparison, now: JudgingAlternative, ways: Sequence[JudgingAlternative], gold: Mapping[str, str | None]
) -> list[tuple[int, Flip]]:
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


def _changed(ways: Sequence[JudgingAlternative], now: JudgingAlternative) -> Flags:
    """The problems whose class is another in some of these ways."""
    changed_P = np.zeros(len(now.class_P), dtype=bool)
    for way in ways:
        changed_P |= way.class_P != now.class_P
    return changed_P


def _samples(
    side: Side, r: int, now: JudgingAlternative, ways: Sequence[JudgingAlternative], rows_F: Integer, shown: int
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
        if way.kind is AlternativeKind.VERIFIER:
            theirs = decided(side.window, side.judged.verdicts[way.verifier], moved[way.name]).filter(CORRECT)
            found += [right.filter(here).join(theirs, on=key, how="anti"), theirs.join(right, on=key, how="anti")]
        elif way.kind is AlternativeKind.TRUNCATED:
            found.append(right.filter(here).join(truncated_of(side.window, moved[way.name]), on=key, how="semi"))
        elif way.kind is AlternativeKind.FAILED:
            found.append(own.filter(here & (pl.col("verdict") == Verdict.FAILED.value)))
        else:
            found.append(right.filter(here & pl.col("step").is_in(sorted(way.left_out))))
    others = {name: frame for name, frame in side.judged.verdicts.items() if name != side.run.verifier}
    return fetched(side.window, chosen(pl.concat(found), shown), others)


def _table(way: JudgingAlternative, now: JudgingAlternative) -> Alternative:
    cells = {letter: int((way.class_P == letter).sum()) for letter in ("P", "E", "S", "O", UNTOLD)}
    P, E, S, O = (cells[letter] for letter in "PESO")  # noqa: E741
    value = {name: float(ratio(name, P, E, S, P + E + S + O)) for name in METRICS}
    turned = int((way.class_P != now.class_P).sum())
    return Alternative(way.name, way.kind, cells, value, turned, way.review, int((~way.told_P).sum()))
