"""Ways to judge the same samples: by another verifier, without some extraction steps, without truncated ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.comparing.compare import Comparison
from offleash.comparing.flip_samples import Held, Integer, Window, held, open_window, tells_endings, truncated_correct
from offleash.data.run import Run
from offleash.stats.change import states
from offleash.stats.classes import AFTER, BEFORE
from offleash.stats.rules import IN, OUT, UNDETERMINED, Rule, State

STRICT = ("tag", "boxed", "hashes", "code")  # steps that read what the model itself marked as its answer
UNTOLD = "U"  # the class of a problem that a rule cannot place, or whose record stopped too early to tell

Flags = NDArray[np.bool_]
Letters = NDArray[np.str_]


class Kind(StrEnum):
    VERIFIER = "verifier"  # another verifier's verdicts
    STRICT = "strict"  # only answers read by a strict step count
    STEP = "step"  # answers read by one step do not count
    TRUNCATED = "truncated"  # samples cut at the token limit do not count as correct
    FAILED = "failed"  # verdicts that failed count as correct; as wrong they count now


@dataclass(frozen=True)
class Judged:
    """Where a run is, and its verdicts by every verifier whose verdicts its folder holds."""

    source: str = ""  # as a command would name it
    folder: bool = False  # False: a log, which holds what one tool said
    verdicts: Mapping[str, pl.LazyFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class Untried:
    """An alternative that these runs cannot tell, why, and what would make it possible."""

    what: str
    reason: str
    next_step: str | None = None


@dataclass(frozen=True)
class Side:
    """One run of the pair; `window` is None for bare counts, of which nothing more can be told."""

    run: Run
    judged: Judged
    window: Window | None
    now: Held

    @property
    def place(self) -> str:
        return self.judged.source or self.run.name


@dataclass(frozen=True)
class Way:
    """One way to judge the first k samples of both runs: its counts, and the state and class they give."""

    name: str
    kind: Kind | None
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
        return not (self.kind is Kind.STEP and self.left_out <= set(STRICT))


def sides_of(one: Comparison, judged: Sequence[Judged], own: Sequence[pl.DataFrame]) -> list[Side]:
    """The two runs of a comparison with what their first k samples hold; `own` has their names of the problems."""
    runs = zip((one.before, one.after), judged, own, strict=True)
    return [_side(one, r, run, told, names) for r, (run, told, names) in enumerate(runs)]


def ways_of(one: Comparison, sides: Sequence[Side]) -> tuple[Way, list[Way], list[Untried]]:
    """The way the samples are judged now, every other way that these runs can tell, and what they cannot tell."""
    correct_PR, judged_PR = (_both(sides, name) for name in ("correct_P", "judged_P"))
    now = _way(one, None, "as judged now", None, correct_PR, judged_PR)
    untried: list[Untried] = []
    ways = [
        *_by_verifier(one, now, sides, untried),
        *_by_step(one, now, sides, untried),
        *_without_truncated(one, now, sides, untried),
        *_with_failed(one, now, sides, untried),
    ]
    return now, ways, untried


def _side(one: Comparison, r: int, run: Run, judged: Judged, names: pl.DataFrame) -> Side:
    tally, k = one.tally, one.change.k
    if run.verdicts is None:
        zero_P = np.zeros(len(tally), dtype=np.int64)
        return Side(run, judged, None, Held(np.full_like(zero_P, k), tally.head_PR[:, r], zero_P, {}, False))
    window = open_window(run, names, tally.problem_P, k, tally.stopped_PR[:, r])
    return Side(run, judged, window, held(window, window.verdicts))


def _both(sides: Sequence[Side], name: str) -> Integer:
    return np.stack([getattr(side.now, name) for side in sides], axis=1)


def _way(
    one: Comparison,
    now: "Way | None",
    name: str,
    kind: Kind | None,
    correct_PR: Integer,
    judged_PR: Integer,
    left_out: frozenset[str] = frozenset(),
    verifier: str = "",
) -> Way:
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
    return Way(name, kind, correct_PR, judged_PR, state_PR, class_P, told_P, left_out, verifier)


def _letters(state_PR: State) -> Letters:
    before_P, after_P = state_PR[:, BEFORE] == IN, state_PR[:, AFTER] == IN
    letter_P = np.where(before_P, np.where(after_P, "P", "S"), np.where(after_P, "E", "O"))
    return np.where((state_PR == UNDETERMINED).any(axis=1), UNTOLD, letter_P)


def _by_verifier(one: Comparison, now: Way, sides: Sequence[Side], untried: list[Untried]) -> list[Way]:
    known = [set(side.judged.verdicts) for side in sides]
    present = {side.run.verifier for side in sides}
    shared = sorted(name for name in known[BEFORE] & known[AFTER] if present != {name})
    also = "math" if any((name or "").startswith("string") for name in present) else "string"
    for side in sides:
        if not side.judged.folder:
            step = f"offleash import {side.place} -o RUN, then offleash verify RUN --also {also}"
            untried.append(Untried("another verifier", f"{side.run.name} is no run folder", step))
    if not shared and all(side.judged.folder for side in sides):
        step = f"offleash verify {sides[BEFORE].place} {sides[AFTER].place} --also {also}"
        untried.append(Untried("another verifier", "only one verifier has judged both runs", step))
    for side, other, names in ((sides[0], sides[1], known[0] - known[1]), (sides[1], sides[0], known[1] - known[0])):
        for name in sorted(names - present) if other.judged.folder else ():
            again = f"offleash verify {other.place} --also {name.split('@')[0]}" if "@" in name else None
            untried.append(Untried(f"verifier {name}", f"it judged {side.run.name} and not {other.run.name}", again))
    ways = []
    for name in shared:
        counts = [held(side.window, side.judged.verdicts[name]) for side in sides if side.window is not None]
        correct_PR, judged_PR = (np.stack([getattr(c, f) for c in counts], axis=1) for f in ("correct_P", "judged_P"))
        ways.append(_way(one, now, f"verifier {name}", Kind.VERIFIER, correct_PR, judged_PR, verifier=name))
    return ways


def _by_step(one: Comparison, now: Way, sides: Sequence[Side], untried: list[Untried]) -> list[Way]:
    for side in sides:
        if not side.now.names_steps:
            step = f"offleash verify {side.place}" if side.judged.folder else None
            untried.append(Untried("extraction steps", f"the verdicts of {side.run.name} name none", step))
    steps = sorted({step for side in sides for step in side.now.by_step if step})
    if not steps:
        return []
    loose = frozenset(steps) - set(STRICT)
    choices = [("only strict steps", Kind.STRICT, loose)]
    choices += [(f"without step {step}", Kind.STEP, frozenset({step})) for step in steps]
    ways = []
    for name, kind, left_out in choices:
        gone = [
            sum((side.now.by_step.get(step, 0) for step in left_out), np.zeros_like(side.now.correct_P))
            for side in sides
        ]
        ways.append(_way(one, now, name, kind, now.correct_PR - np.stack(gone, axis=1), now.judged_PR, left_out))
    return ways


def _without_truncated(one: Comparison, now: Way, sides: Sequence[Side], untried: list[Untried]) -> list[Way]:
    what, truncated_PR = "truncated samples", one.tally.truncated_PR
    for r, side in enumerate(sides):
        if not truncated_PR[:, r].any() and not tells_endings(side.run):
            untried.append(Untried(what, f"{side.run.name} does not say how its samples ended"))
    if not truncated_PR.any():
        if not untried or untried[-1].what != what:
            untried.append(Untried(what, "no sample was cut at the token limit"))
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
    return [_way(one, now, "truncated left out", Kind.TRUNCATED, correct_PR, now.judged_PR)]


def _with_failed(one: Comparison, now: Way, sides: Sequence[Side], untried: list[Untried]) -> list[Way]:
    failed_PR = _both(sides, "failed_P")
    if not failed_PR.any():
        untried.append(Untried("failed verdicts", "no verdict failed"))
        return []
    return [_way(one, now, "failed as correct", Kind.FAILED, now.correct_PR + failed_PR, now.judged_PR)]
