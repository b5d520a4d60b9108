"""What rollouts say about a training run, by windows of steps: rates, groups without signal, what was solved before.

`Watch.refresh` reads what is new (rollouts.py) and computes again only the windows that changed; what earlier windows
say about a problem is kept as a running sum. So a look costs what is new, and a pass over the problems.

Problems are drawn again and again while the weights change. A problem that was solved in an earlier window and not in
the latest one that drew it may have been lost, or missed by chance: a rare success is seldom seen twice. Chance is that
of the same samples in another order. If no rate fell, every order of a problem's samples is as likely, and the chance
that its last n samples hold none of its C successes among N is C(N-n, C)/C(N, C), exactly.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offleash.data.verdict import Verdict
from offleash.stats.binomials import Float, log_miss
from offleash.stats.chance import upper_tail
from offleash.stats.pass_at_k import pass_at_k
from offleash.training.watch.rollouts import Changes, RolloutFolder, RolloutSample, StepBatch

MAX_WINDOWS = 20  # into which the steps are divided, unless the user says how many steps a window has
FALSE_ALARMS = 0.05  # of a whole training run, however long


class GroupCounts(NamedTuple):
    """The samples of one problem at one step. Counts are of samples; unknown ones are None."""

    problem: int
    judged: int
    correct: int
    unverified: int
    unread: int  # without an answer
    entropy: float | None  # of the answers, in nats; None with fewer than two
    repeated: int | None  # whose text another sample of the group has
    truncated: int | None


@dataclass(frozen=True)
class WindowStats:
    """One window of steps. Shares are None where nothing is known."""

    first: int  # the steps seen in it
    last: int
    complete: bool  # its last step was seen
    samples: int
    groups: int
    group_size: int  # G: the most frequent one
    pass_1: float | None
    pass_G: float | None
    all_wrong: float | None
    all_right: float | None
    answer_entropy: float | None
    answered: int  # samples with an answer
    unread: float | None
    truncated: float | None
    repeated: float | None
    unverified: int
    problems: dict[int, tuple[int, int]]  # judged and correct samples of each problem


@dataclass(frozen=True)
class SolvedBefore:
    """A problem that was solved in an earlier window and not since."""

    problem: int
    solved: int  # successes, of `samples`
    samples: int
    last_solved: int  # the last step of that window
    since: int  # samples after that window, all of them unsuccessful
    chance: float  # that so many samples at the end hold no success, if its rate did not fall


@dataclass(frozen=True)
class Losses:
    """Problems that were solved in an earlier window and not in the latest that drew them."""

    problems: tuple[SolvedBefore, ...]  # the least likely by chance first
    drawn_again: int  # problems that were solved, and drawn in two windows or more: those that could be among them
    expected: float  # how many of these chance would give
    significant: bool  # more than chance gives, after correction for all windows of a training run


@dataclass
class _History:
    """What the windows so far say of a problem."""

    samples: int = 0
    solved: int = 0
    windows: int = 0
    latest_samples: int = 0  # samples in the latest window that drew it
    last_solved: int | None = None  # the last step of the latest window that solved it
    since: int = 0  # samples after that window

    def add(self, samples: int, solved: int, last_step: int) -> "_History":
        return _History(
            self.samples + samples,
            self.solved + solved,
            self.windows + 1,
            samples,
            last_step if solved else self.last_solved,
            0 if solved else self.since + samples,
        )


def group_counts(samples: Iterable[RolloutSample]) -> list[GroupCounts]:
    """The groups of a step. Where every sample of a problem has a group of its own, that is an id of the sample."""
    by_problem: dict[int, dict[int | None, list[RolloutSample]]] = {}
    for sample in samples:
        by_problem.setdefault(sample.problem, {}).setdefault(sample.group, []).append(sample)
    counts = []
    for problem, groups in by_problem.items():
        group_samples = list(groups.values())
        if all(len(members) == 1 for members in group_samples):
            group_samples = [[members[0] for members in group_samples]]
        counts += [_group(problem, members) for members in group_samples]
    return counts


def _group(problem: int, members: Sequence[RolloutSample]) -> GroupCounts:
    judged = [sample for sample in members if sample.verdict not in (None, Verdict.FAILED)]
    answers = Counter(sample.answer for sample in members if sample.answer is not None)
    texts = [sample.text for sample in members if sample.text is not None]
    finishes = [sample.truncated for sample in members if sample.truncated is not None]
    return GroupCounts(
        problem=problem,
        judged=len(judged),
        correct=sum(sample.verdict == Verdict.CORRECT for sample in judged),
        unverified=len(members) - len(judged),
        unread=sum(sample.answer is None or sample.verdict == Verdict.UNREAD for sample in members),
        entropy=_entropy(answers.values()) if answers.total() > 1 else None,
        repeated=len(texts) - len(set(texts)) if texts else None,
        truncated=sum(finishes) if finishes else None,
    )


def _entropy(counts: Iterable[int]) -> float:
    """Plug-in entropy in nats."""
    values = list(counts)
    total = sum(values)
    return -sum(count / total * math.log(count / total) for count in values)


def window_stats(groups: Sequence[GroupCounts], steps: Sequence[int], end: int) -> WindowStats:
    """The statistics of a window.

    Args:
        groups: its groups.
        steps: the steps seen in it.
        end: the last step it can have.
    """
    judged = [group for group in groups if group.judged]
    samples = sum(group.judged + group.unverified for group in groups)
    size = Counter(group.judged for group in judged).most_common(1)[0][0] if judged else 0
    full_groups = [group for group in judged if group.judged >= size]
    with_peers = [group for group in judged if group.judged > 1]  # a single sample has no group to differ from
    problems: dict[int, tuple[int, int]] = {}
    for group in judged:
        n, c = problems.get(group.problem, (0, 0))
        problems[group.problem] = n + group.judged, c + group.correct
    pass_at_size = [
        float(chance)
        for chance in pass_at_k([group.judged for group in full_groups], [group.correct for group in full_groups], size)
    ]
    return WindowStats(
        first=min(steps),
        last=max(steps),
        complete=max(steps) >= end,
        samples=samples,
        groups=len(groups),
        group_size=size,
        pass_1=_mean([group.correct / group.judged for group in judged]),
        pass_G=_mean(pass_at_size),
        all_wrong=_mean([group.correct == 0 for group in with_peers]),
        all_right=_mean([group.correct == group.judged for group in with_peers]),
        answer_entropy=_mean([group.entropy for group in groups if group.entropy is not None]),
        answered=samples - sum(group.unread for group in groups),
        unread=_share(groups, [group.unread for group in groups]),
        truncated=_share(groups, [group.truncated for group in groups]),
        repeated=_share(groups, [group.repeated for group in groups]),
        unverified=sum(group.unverified for group in groups),
        problems=problems,
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _share(groups: Sequence[GroupCounts], counts: Sequence[int | None]) -> float | None:
    """The share of the samples of those groups of which the count is known."""
    known = [(group, count) for group, count in zip(groups, counts, strict=True) if count is not None]
    total = sum(group.judged + group.unverified for group, _ in known)
    return sum(count for _, count in known) / total if total else None


def window_width(first: int, last: int) -> int:
    """Steps per window, a round number, so that there are at most MAX_WINDOWS.

    >>> [window_width(1, last) for last in (15, 40, 300)]
    [1, 2, 20]
    """
    width = 1
    for factor in _factors():
        width = factor
        if _window(last, width) - _window(first, width) < MAX_WINDOWS:
            break
    return width


def _factors() -> Iterable[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _window(step: int, width: int) -> int:
    """The number of the window of a step: steps 1 to `width` are number 0, step 0 is before the first update."""
    return (step - 1) // width


class Watch:
    """A training run as its rollouts show it.

    Args:
        folder: Its rollouts.
        width: Steps per window; None: chosen by the number of steps, and larger as they grow.
    """

    def __init__(self, folder: RolloutFolder, width: int | None = None) -> None:
        self.folder = folder
        self.windows: dict[int, WindowStats] = {}  # by number
        self.only_evaluations = False  # whether the windows are of evaluations, because there are no other rollouts
        self.losses = Losses((), 0, 0.0, False)
        self.drawn = 0  # problems with a verdict
        self._width = width
        self._used_width = 0
        self._steps: dict[StepBatch, list[GroupCounts]] = {}
        self._folded_history: dict[int, _History] = {}  # of the windows in _folded
        self._folded_windows: list[int] = []

    def refresh(self) -> Changes:
        """Read what is new and compute what it changes."""
        changes = self.folder.refresh()
        for batch in changes.batches:
            samples = self.folder.samples_of(batch)
            if samples:
                self._steps[batch] = group_counts(samples)
            else:
                self._steps.pop(batch, None)
        changed = self._update_windows({batch.step for batch in changes.batches})
        if changed or not self.windows:
            self.losses = self._losses(changed)
        return changes

    @property
    def ordered(self) -> list[WindowStats]:
        """The windows in the order of their steps."""
        return [self.windows[number] for number in sorted(self.windows)]

    def _update_windows(self, changed_steps: set[int]) -> set[int]:
        """Compute the windows of the changed steps, or all where their width changed; their numbers."""
        only_evaluations = not any(not batch.evaluation for batch in self._steps)
        steps = sorted(batch.step for batch in self._steps if batch.evaluation == only_evaluations)
        if not steps:
            self.windows.clear()
            return set()
        width = self._width or window_width(steps[0], steps[-1])
        if (width, only_evaluations) != (self._used_width, self.only_evaluations):
            self._used_width, self.only_evaluations = width, only_evaluations
            self.windows.clear()
            changed_steps = set(steps)
        by_window: dict[int, list[int]] = {}
        for step in steps:
            by_window.setdefault(_window(step, width), []).append(step)
        changed = {_window(step, width) for step in changed_steps}
        for number in changed:
            if number not in by_window:
                self.windows.pop(number, None)
                continue
            inside = by_window[number]
            groups = [group for step in inside for group in self._steps[StepBatch(step, only_evaluations)]]
            self.windows[number] = window_stats(groups, inside, (number + 1) * width)
        return changed

    # What was solved before.

    def _losses(self, changed: set[int]) -> Losses:
        order = sorted(self.windows)
        if not order:
            return Losses((), 0, 0.0, False)
        self._fold_windows(order[:-1], changed)
        newest = order[-1]
        history = dict(self._folded_history)
        for problem, counts in self.windows[newest].problems.items():
            history[problem] = history.get(problem, _History()).add(*counts, self.windows[newest].last)
        self.drawn = len(history)
        lost, chance_P = _lost_problems(history)
        # A window that is still growing is looked at again and again: it does not count for the alarm.
        is_complete = self.windows[newest].complete
        tests_made, tested = (
            (len(order), (lost, chance_P)) if is_complete else (len(order) - 1, _lost_problems(self._folded_history))
        )
        significant = _exceeds_chance(*tested, tests_made)
        return Losses(tuple(lost), len(chance_P), float(chance_P.sum()), significant)

    def _fold_windows(self, numbers: list[int], changed: set[int]) -> None:
        """Add windows to what is known of the past; begin again where an earlier one changed."""
        kept = self._folded_windows
        if kept != numbers[: len(kept)] or changed & set(kept):
            self._folded_history, self._folded_windows = {}, []
        for number in numbers[len(self._folded_windows) :]:
            window = self.windows[number]
            for problem, counts in window.problems.items():
                self._folded_history[problem] = self._folded_history.get(problem, _History()).add(*counts, window.last)
            self._folded_windows.append(number)


def _lost_problems(history: dict[int, _History]) -> tuple[list[SolvedBefore], Float]:
    """The problems solved before and not since; and for each problem that could be one of them, the chance that it is.

    That chance is of the samples in its latest window; the chance of a listed problem is of all samples since it was
    solved, which the number of samples since then, as a statistic, exceeds no more often.
    """
    drawn_twice = [(problem, past) for problem, past in history.items() if past.windows > 1 and past.solved]
    if not drawn_twice:
        return [], np.zeros(0)
    samples, solved, latest_samples, since = np.array(
        [(past.samples, past.solved, past.latest_samples, past.since) for _, past in drawn_twice]
    ).T
    latest_chance = np.exp(log_miss(samples, solved, latest_samples))
    since_chance = np.exp(log_miss(samples, solved, since))
    listed = [
        SolvedBefore(problem, past.solved, past.samples - past.since, past.last_solved or 0, past.since, float(chance))
        for (problem, past), chance in zip(drawn_twice, since_chance, strict=True)
        if past.since
    ]
    listed.sort(key=lambda loss: (loss.chance, loss.problem))
    return listed, latest_chance


def _exceeds_chance(lost: Sequence[SolvedBefore], chance_P: Float, tests_made: int) -> bool:
    """Whether more is lost than chance gives: more problems, or a problem that was solved too often to be missed.

    There is a look at every complete window, and nobody knows how many there will be. So look w may err with a chance
    of FALSE_ALARMS times 6/(pi w)^2, which adds up to FALSE_ALARMS over all looks there can ever be.
    """
    if tests_made < 2 or not lost:
        return False
    significance_level = FALSE_ALARMS * 6 / (math.pi * tests_made) ** 2 / 2  # half for each of the two tests
    return upper_tail(chance_P, len(lost)).p <= significance_level or lost[0].chance <= significance_level / len(
        chance_P
    )
