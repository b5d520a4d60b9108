"""Flips: problems whose class changes with the verifier, extraction step or truncation, and what decides it.

At large k a class rests on a single verdict, so one misread answer among thousands makes a loss or a gain. First come
the alternative ways to judge the same samples, then the review list of the problems that flip under them: those a
person should look at before believing the table, each with the few samples that decide it.
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
    choose_samples,
    count_verdicts,
    decisive_samples,
    fetch,
    open_window,
    records_endings,
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
UNDETERMINED_CLASS = "U"  # the class of a problem that a rule cannot place, or whose record stopped too early

Flags = NDArray[np.bool_]
ClassLetters = NDArray[np.str_]


class AlternativeKind(StrEnum):
    """In which respect an alternative judges differently."""

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
    """An alternative that was not tried; the fields are the keys of its JSON."""

    what: str
    reason: str  # why these runs do not allow it
    next_step: str | None = None  # the command that would


@dataclass(frozen=True)
class RunSide:
    """One run of the pair, with what its first k samples hold."""

    run: Run
    judged: StoredVerdicts  # by every verifier that has judged it
    window: SampleWindow | None  # None: bare counts, which no alternative can judge again
    now: WindowCounts  # by the verdicts that the comparison uses

    @property
    def path(self) -> str:
        """How a suggested command names the run."""
        return self.judged.source or self.run.name


@dataclass(frozen=True)
class JudgingAlternative:
    """One way to judge the first k samples of both runs: its counts, and the state and class they give."""

    name: str
    kind: AlternativeKind | None  # None: as judged now
    correct_PR: Integer  # among the first k samples
    judged_PR: Integer  # of the first k samples, those with a verdict of this kind
    state_PR: State  # in, out or undetermined, by the rule of the comparison
    class_P: ClassLetters
    complete_P: Flags  # False: not all samples that are judged now were judged this way
    left_out: frozenset[str] = frozenset()  # steps that do not count
    verifier: str = ""

    @property
    def review(self) -> bool:
        """Whether its flips are worth a look.

        Not those of leaving out a strict step: without the format in which a model marks its answers nearly all of them
        vanish, which says nothing about how well they were read.
        """
        return not (self.kind is AlternativeKind.STEP and self.left_out <= set(STRICT))


def sides_of(comparison: Comparison, judged: Sequence[StoredVerdicts], own: Sequence[pl.DataFrame]) -> list[RunSide]:
    """The two runs of a comparison with what their first k samples hold.

    Args:
        comparison: the comparison whose classes are checked.
        judged: for each run, the verdicts of all its verifiers.
        own: for each run, its own ids of the aligned problems.
    """
    runs = zip((comparison.before, comparison.after), judged, own, strict=True)
    return [_side(comparison, r, run, stored, names) for r, (run, stored, names) in enumerate(runs)]


def alternatives_of(
    comparison: Comparison, sides: Sequence[RunSide]
) -> tuple[JudgingAlternative, list[JudgingAlternative], list[UntriedAlternative]]:
    """How the samples are judged now, every alternative that the runs allow, and those that they do not."""
    correct_PR, judged_PR = (_per_run(sides, name) for name in ("correct_P", "judged_P"))
    now = _alternative(comparison, None, "as judged now", None, correct_PR, judged_PR)
    untried: list[UntriedAlternative] = []
    for run in comparison.counted.random_subset:
        reason = f"the order of its samples is unknown: classes here are of {comparison.change.k:,} at random (--seed)"
        untried.append(UntriedAlternative(f"the first samples of {run}", reason))
    alternatives = [
        *_by_verifier(comparison, now, sides, untried),
        *_by_step(comparison, now, sides, untried),
        *_without_truncated(comparison, now, sides, untried),
        *_with_failed(comparison, now, sides, untried),
    ]
    return now, alternatives, untried


def _side(comparison: Comparison, r: int, run: Run, stored: StoredVerdicts, names: pl.DataFrame) -> RunSide:
    """One run with its window; bare counts have none, and their correct samples are those of the tally."""
    tally, k = comparison.tally, comparison.change.k
    if run.verdicts is None:
        zero_P = np.zeros(len(tally), dtype=np.int64)
        return RunSide(run, stored, None, WindowCounts(np.full_like(zero_P, k), tally.head_PR[:, r], zero_P, {}, False))
    window = open_window(run, names, tally.problem_P, k, tally.stopped_PR[:, r])
    return RunSide(run, stored, window, count_verdicts(window, window.verdicts))


def _per_run(sides: Sequence[RunSide], name: str) -> Integer:
    """A count of both runs as columns."""
    return np.stack([getattr(side.now, name) for side in sides], axis=1)


def _alternative(
    comparison: Comparison,
    now: "JudgingAlternative | None",
    name: str,
    kind: AlternativeKind | None,
    correct_PR: Integer,
    judged_PR: Integer,
    left_out: frozenset[str] = frozenset(),
    verifier: str = "",
) -> JudgingAlternative:
    """The states and classes of these counts; a problem that was not fully judged this way keeps its class.

    By the rule `seen` one success decides, so a problem with a success needs no further verdicts.
    """
    seen, k = comparison.question.rule is Rule.SEEN, comparison.change.k
    if seen:
        unreached_PR = np.where(
            judged_PR >= k, OUT, UNDETERMINED
        )  # a record that stopped early knows no more than this
        state_PR = np.where(correct_PR >= 1, IN, unreached_PR).astype(np.int8)
    else:
        question = comparison.question
        state_PR = states(np.full_like(correct_PR, k), correct_PR, question.rule, k, question.tau, question.zeta)
    complete_PR = np.ones_like(correct_PR, dtype=bool) if now is None else judged_PR >= now.judged_PR
    enough_PR = complete_PR | (correct_PR >= 1) if seen else complete_PR
    complete_P: Flags = np.asarray(enough_PR.all(axis=1))
    letter_P = _letters(state_PR)
    class_P = letter_P if now is None else np.where(complete_P, letter_P, now.class_P)
    return JudgingAlternative(name, kind, correct_PR, judged_PR, state_PR, class_P, complete_P, left_out, verifier)


def _letters(state_PR: State) -> ClassLetters:
    """P, E, S or O by the states before and after; undetermined where either is."""
    before_P, after_P = state_PR[:, BEFORE] == IN, state_PR[:, AFTER] == IN
    letter_P = np.where(before_P, np.where(after_P, "P", "S"), np.where(after_P, "E", "O"))
    return np.where((state_PR == UNDETERMINED).any(axis=1), UNDETERMINED_CLASS, letter_P)


def _by_verifier(
    comparison: Comparison, now: JudgingAlternative, sides: Sequence[RunSide], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    """One alternative per verifier, other than the present one, that has judged both runs.

    One that judged a single run would compare two verifiers as well as two models, so it is only suggested.
    """
    known = [set(side.judged.verdicts) for side in sides]
    present = {side.run.verifier for side in sides}
    shared = sorted(name for name in known[BEFORE] & known[AFTER] if present != {name})
    # the command to suggest names a verifier of another kind than the present one: two alike would agree by design
    other_verifier = "math" if any((name or "").startswith("string") for name in present) else "string"
    for side in sides:
        if not side.judged.folder:
            step = f"offleash import {side.path} -o RUN, then offleash verify RUN --also {other_verifier}"
            untried.append(UntriedAlternative("another verifier", f"{side.run.name} is not a run folder", step))
    if not shared and all(side.judged.folder for side in sides):
        step = f"offleash verify {sides[BEFORE].path} {sides[AFTER].path} --also {other_verifier}"
        untried.append(UntriedAlternative("another verifier", "only one verifier has judged both runs", step))
    for side, other, names in ((sides[0], sides[1], known[0] - known[1]), (sides[1], sides[0], known[1] - known[0])):
        for name in sorted(names - present) if other.judged.folder else ():
            verify_command = f"offleash verify {other.path} --also {name.split('@')[0]}" if "@" in name else None
            untried.append(
                UntriedAlternative(
                    f"verifier {name}", f"it judged {side.run.name} but not {other.run.name}", verify_command
                )
            )
    alternatives = []
    for name in shared:
        counts = [count_verdicts(side.window, side.judged.verdicts[name]) for side in sides if side.window is not None]
        correct_PR, judged_PR = (np.stack([getattr(c, f) for c in counts], axis=1) for f in ("correct_P", "judged_P"))
        alternatives.append(
            _alternative(
                comparison, now, f"verifier {name}", AlternativeKind.VERIFIER, correct_PR, judged_PR, verifier=name
            )
        )
    return alternatives


def _by_step(
    comparison: Comparison, now: JudgingAlternative, sides: Sequence[RunSide], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    """What if answers read by some extraction step do not count: by any loose step, and by each step in turn."""
    for side in sides:
        if not side.now.has_step_names:
            step = f"offleash verify {side.path}" if side.judged.folder else None
            untried.append(
                UntriedAlternative("extraction steps", f"the verdicts of {side.run.name} do not record them", step)
            )
    steps = sorted({step for side in sides for step in side.now.by_step if step})
    if not steps:
        return []
    lenient_steps = frozenset(steps) - set(STRICT)
    choices = [("only strict steps", AlternativeKind.STRICT, lenient_steps)]
    choices += [(f"without step {step}", AlternativeKind.STEP, frozenset({step})) for step in steps]
    alternatives = []
    for name, kind, left_out in choices:
        left_out_counts = [
            sum((side.now.by_step.get(step, 0) for step in left_out), np.zeros_like(side.now.correct_P))
            for side in sides
        ]
        alternatives.append(
            _alternative(
                comparison, now, name, kind, now.correct_PR - np.stack(left_out_counts, axis=1), now.judged_PR, left_out
            )
        )
    return alternatives


def _without_truncated(
    comparison: Comparison, now: JudgingAlternative, sides: Sequence[RunSide], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    """What if a sample that was cut at the token limit does not count as correct."""
    what, truncated_PR = "truncated samples", comparison.tally.truncated_PR
    for r, side in enumerate(sides):
        if not truncated_PR[:, r].any() and not records_endings(side.run):
            untried.append(UntriedAlternative(what, f"{side.run.name} does not record how its samples ended"))
    if not truncated_PR.any():
        if not untried or untried[-1].what != what:
            untried.append(UntriedAlternative(what, "no sample was cut at the token limit"))
        return []
    # by the rule `seen` a problem is lost only if every correct sample was cut: the others need no join
    has_truncated_PR = (truncated_PR > 0) & (now.correct_PR > 0)
    if comparison.question.rule is Rule.SEEN:
        has_truncated_PR &= now.correct_PR <= truncated_PR
    cut = [
        truncated_correct(side.window, np.flatnonzero(has_truncated_PR[:, r]))
        if side.window
        else 0 * now.correct_PR[:, r]
        for r, side in enumerate(sides)
    ]
    correct_PR = now.correct_PR - np.stack(cut, axis=1)
    return [_alternative(comparison, now, "truncated left out", AlternativeKind.TRUNCATED, correct_PR, now.judged_PR)]


def _with_failed(
    comparison: Comparison, now: JudgingAlternative, sides: Sequence[RunSide], untried: list[UntriedAlternative]
) -> list[JudgingAlternative]:
    """What if the verifier had accepted every sample on which it failed: an upper bound on what it may have missed."""
    failed_PR = _per_run(sides, "failed_P")
    if not failed_PR.any():
        untried.append(UntriedAlternative("failed verdicts", "no verdict failed"))
        return []
    return [
        _alternative(
            comparison, now, "failed as correct", AlternativeKind.FAILED, now.correct_PR + failed_PR, now.judged_PR
        )
    ]


# The review list: problems that flip, those to look at first on top, with the samples that decide.


SAMPLES = 3  # deciding samples shown per problem and run
MAX_FETCHED_PROBLEMS = 200  # problems whose deciding samples are fetched: those first on the list
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
        """The flips that a person should look at."""
        return tuple(flip for flip in self.problems if flip.review)


def can_flip(question: Question) -> bool:
    """Whether the classes asked for are those of problems by their first k samples."""
    return question.per is Per.PROBLEM and not question.drop_unread


def check_flips(question: Question) -> None:
    """Refuse a question whose classes are not those of problems by their first k samples: see `can_flip`."""
    if question.per is not Per.PROBLEM:
        raise OffleashError(
            f"--flips lists problems, but --per {question.per.value} has no class O. Use --per problem."
        )
    if question.drop_unread:
        raise OffleashError("--flips needs the same samples under every alternative. Leave out --unread drop.")


def flips(comparison: Comparison, before: StoredVerdicts, after: StoredVerdicts, shown: int = SAMPLES) -> Flips:
    """Which classes of a comparison change when its samples are judged differently, and the samples that decide it.

    Args:
        comparison: two compared runs; classes are those of problems by their first k samples.
        before: the stored verdicts of the run before, by every verifier.
        after: the same of the run after.
        shown: deciding samples to fetch per problem and run.
    """
    check_flips(comparison.question)
    matched = match([comparison.before, comparison.after])
    sides = sides_of(comparison, (before, after), matched.own)
    now, alternatives, untried = alternatives_of(comparison, sides)
    listed = _review_list(comparison, now, alternatives, dict(matched.problems.select("problem", "gold").iter_rows()))
    row_F = np.array([row for row, _ in listed[:MAX_FETCHED_PROBLEMS]], dtype=np.int64)
    seen = [_samples(side, r, now, alternatives, row_F, shown) for r, side in enumerate(sides)]
    problems = (replace(flip, samples=seen[BEFORE].get(row, ()) + seen[AFTER].get(row, ())) for row, flip in listed)
    return Flips(
        before=comparison.before.name,
        after=comparison.after.name,
        k=comparison.change.k,
        now=_table(now, now),
        alternatives=tuple(_table(alternative, now) for alternative in alternatives),
        untried=tuple(untried),
        problems=tuple(problems),
    )


def _review_list(
    comparison: Comparison,
    now: JudgingAlternative,
    alternatives: Sequence[JudgingAlternative],
    gold: Mapping[str, str | None],
) -> list[tuple[int, Flip]]:
    """The flips with their rows: E and S before P and O, then those settled by the fewest samples."""
    flips = []
    for row in np.flatnonzero(_class_changes(alternatives, now)):
        flipped = [alternative for alternative in alternatives if alternative.class_P[row] != now.class_P[row]]
        review = any(alternative.review for alternative in flipped)
        # flips that only ignoring a whole format causes say nothing about how many samples a person must read
        reviewed = [alternative for alternative in flipped if alternative.review] if review else flipped
        difference_AR = np.abs(
            np.stack([alternative.correct_PR[row] - now.correct_PR[row] for alternative in reviewed])
        )
        problem = str(comparison.tally.problem_P[row])
        answer = gold.get(problem)
        flip = Flip(
            problem=problem,
            gold=None if answer is None else clean(answer[:GOLD]),
            now=str(now.class_P[row]),
            under={alternative.name: str(alternative.class_P[row]) for alternative in flipped},
            review=review,
            correct=(int(now.correct_PR[row, BEFORE]), int(now.correct_PR[row, AFTER])),
            deciding=int(difference_AR.max(axis=0).sum()),
            samples=(),
        )
        flips.append((int(row), flip))
    # losses and gains change the headline, and few deciding samples are quickly read: both come first
    return sorted(
        flips, key=lambda pair: (not pair[1].review, pair[1].now not in "ES", pair[1].deciding, pair[1].problem)
    )


def _class_changes(alternatives: Sequence[JudgingAlternative], now: JudgingAlternative) -> Flags:
    """The problems whose class differs under some of these alternatives."""
    changed_P = np.zeros(len(now.class_P), dtype=bool)
    for alternative in alternatives:
        changed_P |= alternative.class_P != now.class_P
    return changed_P


def _samples(
    side: RunSide,
    r: int,
    now: JudgingAlternative,
    alternatives: Sequence[JudgingAlternative],
    row_F: Integer,
    shown: int,
) -> dict[int, tuple[DecidingSample, ...]]:
    """The deciding samples of one run, by row: those that one alternative counts as correct and another does not."""
    reviewed_P = _class_changes([alternative for alternative in alternatives if alternative.review], now)
    changed_rows = {}
    for alternative in alternatives:
        counts_P = (
            alternative.complete_P
            & (alternative.state_PR[:, r] != now.state_PR[:, r])
            & (alternative.review | ~reviewed_P)
        )
        changed_rows[alternative.name] = row_F[counts_P[row_F]]
    row_indices = np.unique(np.concatenate([*changed_rows.values(), np.zeros(0, dtype=np.int64)]))
    if side.window is None or not row_indices.size:
        return {}
    # a sample decides if one way of judging counts it as correct and the other does not
    own = decisive_samples(side.window, side.window.verdicts, row_indices)
    right, key = own.filter(CORRECT), ["row", "index"]
    deciding_samples = []
    for alternative in alternatives:
        here = pl.col("row").is_in(changed_rows[alternative.name].tolist())
        if not changed_rows[alternative.name].size:
            continue
        if alternative.kind is AlternativeKind.VERIFIER:
            theirs = decisive_samples(
                side.window, side.judged.verdicts[alternative.verifier], changed_rows[alternative.name]
            ).filter(CORRECT)
            deciding_samples += [
                right.filter(here).join(theirs, on=key, how="anti"),
                theirs.join(right, on=key, how="anti"),
            ]
        elif alternative.kind is AlternativeKind.TRUNCATED:
            deciding_samples.append(
                right.filter(here).join(truncated_of(side.window, changed_rows[alternative.name]), on=key, how="semi")
            )
        elif alternative.kind is AlternativeKind.FAILED:
            deciding_samples.append(own.filter(here & (pl.col("verdict") == Verdict.FAILED.value)))
        else:
            deciding_samples.append(right.filter(here & pl.col("step").is_in(sorted(alternative.left_out))))
    others = {name: frame for name, frame in side.judged.verdicts.items() if name != side.run.verifier}
    return fetch(side.window, choose_samples(pl.concat(deciding_samples), shown), others)


def _table(alternative: JudgingAlternative, now: JudgingAlternative) -> Alternative:
    """The table under an alternative; undetermined problems are in none of the rates."""
    cells = {letter: int((alternative.class_P == letter).sum()) for letter in ("P", "E", "S", "O", UNDETERMINED_CLASS)}
    P, E, S, O = (cells[letter] for letter in "PESO")  # noqa: E741
    value = {name: float(ratio(name, P, E, S, P + E + S + O)) for name in METRICS}
    flipped = int((alternative.class_P != now.class_P).sum())
    return Alternative(
        alternative.name,
        alternative.kind,
        cells,
        value,
        flipped,
        alternative.review,
        int((~alternative.complete_P).sum()),
    )
