"""compare: two runs in; support change, curves, evidence, guessing, diversity and forecasts out.

A `Comparison` holds the results of all the neighbouring files; the terminal, JSON, figures and page only read it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import polars as pl

from offleash.comparing.align import is_greedy, same_decoding
from offleash.comparing.answers import MaxAtK, answers, graded, tally_of_answers
from offleash.comparing.evidence import Evidence, evidence, tested_jointly
from offleash.comparing.guessing import Guessing, guessing
from offleash.comparing.per_benchmark import BenchmarkChange, Macro, by_benchmark, macro_mean
from offleash.comparing.question import Question
from offleash.comparing.tally import AlignedTally, tally, verdict_table
from offleash.data.run import Run
from offleash.data.tables import VERDICT, Note
from offleash.data.tally import Answers, Per, Tally
from offleash.data.verdict import Verdict
from offleash.display import html
from offleash.errors import OffleashError
from offleash.stats.change import SupportChange, cells_at, change_at, common_budget
from offleash.stats.curves import (
    Crossing,
    Curve,
    EquivalentBudget,
    budgets,
    crossing,
    curve,
    dense_budgets,
    equivalent_budget,
    equivalent_budgets,
)
from offleash.stats.intervals import Interval
from offleash.stats.pass_at_k import pass_at_k_prefix, sampling_efficiency_gap
from offleash.stats.portfolio import Portfolio, portfolio
from offleash.stats.significance import joint_confidence, undecided_bounds
from offleash.stats.support_classes import AFTER, BEFORE, Rule, thinned_cells

if TYPE_CHECKING:
    from offleash.comparing.diversity import Diversity
    from offleash.stats.forecast import Forecast

Derived = TypeVar("Derived")

GAP_BUDGET = 256  # k of the sampling-efficiency gap, pass@256 of the base minus pass@1 of the RL model
CURVES = ("before", "after", "difference", "SRR", "NDR", "SDS", "NSCR")


@dataclass(frozen=True, repr=False)
class Comparison:
    """What RL kept, lost and gained, how significant that is, and how much of it chance and guessing would give."""

    before: Run
    after: Run
    tally: Tally
    counted: AlignedTally  # per problem, whatever the targets of `tally` are
    question: Question
    change: SupportChange
    curves: dict[str, Curve]
    evidence: Evidence
    crossing: Crossing
    equivalent: tuple[EquivalentBudget, ...]  # for k = 1, 2, 4, ...: kappa(k)
    first_try: Interval  # of the difference of pass@1, with the confidence that all runs after the first share
    worth_at_most: float  # upper end of equivalent[0] with that confidence
    portfolio: Portfolio | None
    guessing: Guessing
    answers: list[Answers] | None  # how often each answer was given, per run; None where a run keeps none
    benchmarks: tuple[BenchmarkChange, ...]
    macro: Macro | None
    undecided: dict[str, Interval] | None  # what P, E, S, O and the rates could be; None where all is decided
    undecided_reason: str | None  # why there is none
    notes: tuple[Note, ...]
    _computed: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def efficiency_gap(self) -> float | None:
        """Delta_SE; None where fewer samples were drawn than it needs."""
        before, after = self.curves["before"], self.curves["after"]
        index = np.flatnonzero(before.k_K == GAP_BUDGET)
        if not index.size:
            return None
        return sampling_efficiency_gap(float(before.value_K[index[0]]), float(after.value_K[0]))

    # What the terminal does not show is computed when the JSON document, a figure or a user reads it.

    @cached_property
    def prefix(self) -> dict[str, np.ndarray]:
        """pass@k of the first k samples, per run; empty where their order is not known."""
        return _prefix(self.tally, self.curves["before"].k_K, self.question)

    @cached_property
    def forecasts(self) -> "dict[str, Forecast]":
        """pass@k at 1, 2, 4 and 8 times the samples drawn, per run; empty per answer, and where a run stopped early."""
        return _forecasts(self.tally)

    @cached_property
    def diversity(self) -> "Diversity | None":
        """Entropy, distinct answers and majority vote of both runs; None where a run keeps no answers."""
        if self.answers is None:
            return None
        from offleash.comparing.diversity import diversity

        return diversity(self.answers, self.counted.tally, self.question.replicates, self.question.seed)

    @cached_property
    def graded(self) -> MaxAtK | None:
        """max@k of both runs; None where no sample has partial credit."""
        return graded([self.before, self.after], self.counted, self.curves["before"].k_K)

    def compute_once(self, name: str, compute: Callable[["Comparison"], Derived]) -> Derived:
        """What an analysis derives from this comparison: computed on first use, kept under its name."""
        if name not in self._computed:
            self._computed[name] = compute(self)
        return cast(Derived, self._computed[name])

    def __repr__(self) -> str:
        return str(self.change)

    def _repr_html_(self) -> str | None:
        """What a notebook shows."""
        return html(self)


def compare_all(runs: Sequence[Run], question: Question | None = None) -> list[Comparison]:
    """The first run against each of the others: checkpoints of one training run, its seeds, or several methods.

    Args:
        runs: the run before, then one or more runs after.
        question: rule, target, k and the rest; None: the defaults.

    Returns:
        One comparison per run after the first. With several, all are on the problems and the k that all runs share, and
        every test is corrected over them: each is another chance to see a loss where there is none.
    """
    if len(runs) < 2:
        names = ", ".join(run.name for run in runs) or "none"
        raise OffleashError(
            f"A comparison needs two runs, before and after; found {len(runs)} ({names}). Name another run."
        )
    if len(runs) == 2:
        return [compare(runs[0], runs[1], question)]
    question = question or Question()
    whole = tally(
        runs, question.at, question.seed
    )  # one set of problems and one k, or the steps could not stand in one table
    question = replace(question, at=whole.tally.head)
    kept = [
        replace(run, problems=run.problems.join(_own_ids(whole, names), on="problem", how="semi"))
        for run, names in zip(runs, whole.own, strict=True)
    ]
    first = replace(kept[0], notes=kept[0].notes + whole.notes)
    comparisons = [compare(first, run, question, len(kept) - 1) for run in kept[1:]]
    corrected = tested_jointly([comparison.evidence for comparison in comparisons])
    return [
        replace(comparison, evidence=evidence_of_run)
        for comparison, evidence_of_run in zip(comparisons, corrected, strict=True)
    ]


def _own_ids(whole: AlignedTally, names: pl.DataFrame) -> pl.DataFrame:
    """The ids that a run itself gives to the problems that all runs have."""
    return names.join(whole.problems.select("problem"), on="problem", how="semi").select(problem="own")


def compare(before: Run, after: Run, question: Question | None = None, runs_after: int = 1) -> Comparison:
    """The run before against the run after.

    Args:
        before: the first run.
        after: the run that is compared with it.
        question: rule, target, k and the rest; None: the defaults.
        runs_after: how many runs are compared with the first: bounds on losses and gains hold for all of them together.

    Raises:
        OffleashError: the runs are the same draw, were decoded differently, or share no problem with verdicts.
    """
    question = question or Question()
    _refuse_same_draw(before, after)
    differing = same_decoding(before, after, question.allow)
    dropped_notes: list[Note] = []
    if question.drop_unread:
        before, after = (_without_unread(run, dropped_notes) for run in (before, after))
    tables = [verdict_table(run, "answer") for run in (before, after)]  # one scan for the tally and for the answers
    counted = tally([before, after], question.at, question.seed, tables)
    pair = counted.tally if question.per is Per.PROBLEM else tally_of_answers([before, after], counted, question.per)
    # one pass over dense budgets serves the table at k, the curves, the crossing and the equivalent budgets
    k, most = counted.tally.head, common_budget(pair)
    # of greedy decoding a second draw would show the same, so there is no redraw value
    greedy = is_greedy(before) or is_greedy(after)
    cells_by_k = thinned_cells(pair, np.union1d(dense_budgets(most), [k]), redraw=not greedy)
    sums = cells_by_k.sums(question.replicates, question.seed)
    cells = partial(cells_at, rule=question.rule, k=k, tau=question.tau, zeta=question.zeta, redraw=not greedy)
    if question.rule is Rule.SEEN:
        change = change_at(sums, int(sums.index_of(k)[0]), pair)
    else:
        change = change_at(cells(pair).sums(question.replicates, question.seed), 0, pair, question.rule)
    answers_R = answers([before, after], counted, tables)
    shown, decided = budgets(most), _nothing_undecided(pair, question, k)
    equivalent, confidence = equivalent_budgets(sums, shown, pair=pair), joint_confidence(runs_after)
    worth = equivalent[0] if runs_after == 1 else equivalent_budget(sums, level=confidence, pair=pair)
    return Comparison(
        before=before,
        after=after,
        tally=pair,
        counted=counted,
        question=question,
        change=change,
        curves={name: curve(sums, name, shown) for name in CURVES},
        evidence=evidence(
            pair,
            change,
            question.tau,
            question.zeta,
            question.replicates,
            question.seed,
            greedy=greedy,
            runs=runs_after,
        ),
        crossing=crossing(sums, pair),
        equivalent=equivalent,
        first_try=sums.intervals("difference", sums.index_of(1), confidence)[0],
        worth_at_most=worth.high,
        portfolio=_portfolio(pair, k, question.seed),
        guessing=guessing(pair, answers_R, counted, question, redraw=not greedy),
        answers=answers_R,
        benchmarks=by_benchmark(pair, change, cells, question.replicates, question.seed),
        macro=macro_mean(pair, cells, question.replicates, question.seed),
        undecided=None if decided else undecided_bounds(pair, k),
        undecided_reason=decided,
        notes=differing
        + _notes_of(before)
        + _notes_of(after)
        + tuple(dropped_notes)
        + counted.notes
        + _verdict_notes(counted),
    )


def _refuse_same_draw(before: Run, after: Run) -> None:
    """Two draws of one model with one seed are the same samples: nothing between them is chance."""
    if before.draw and before.draw == after.draw:
        raise OffleashError(
            f"{before.name!r} and {after.name!r} are the same draw: same model, decoding and seed, so the same "
            "samples. To see what chance alone does, draw one of them again with --seed 1."
        )


def _prefix(pair: Tally, k_K: np.ndarray, question: Question) -> dict[str, np.ndarray]:
    """pass@k of the first k samples alone, as some papers report it; {} where their order is not known."""
    gaps = question.drop_unread or pair.unverified_PR.any()  # then an index is not the number of samples before it
    if pair.per is not Per.PROBLEM or not pair.ordered_R.all() or gaps:
        return {}
    available_PR = np.where(pair.stopped_PR, pair.budget_R, pair.drawn_PR)
    hit = pass_at_k_prefix(available_PR[:, :, None], pair.first_PR[:, :, None], k_K).mean(axis=0)
    return {"before": hit[BEFORE], "after": hit[AFTER]}


def _portfolio(pair: Tally, k: int, seed: int) -> Portfolio | None:
    """The best split of k samples between both runs; None per answer, where a budget is not split over targets."""
    if pair.per is not Per.PROBLEM:
        return None
    return portfolio(pair.drawn_PR, pair.correct_PR, k, stopped_P2=pair.stopped_PR, budget_2=pair.budget_R, seed=seed)


def _forecasts(pair: Tally) -> "dict[str, Forecast]":
    """pass@k at 1, 2, 4 and 8 times the samples of the problem with fewest; there is no forecast beyond 8."""
    from offleash.stats.forecast import forecast

    if pair.per is not Per.PROBLEM or (pair.until_R > 0).any():
        return {}
    sides = {"before": BEFORE, "after": AFTER}
    min_drawn_R = pair.drawn_PR.min(axis=0)
    return {
        name: forecast(pair.drawn_PR[:, r], pair.correct_PR[:, r], min_drawn_R[r] * np.array([1, 2, 4, 8]))
        for name, r in sides.items()
    }


def _nothing_undecided(pair: Tally, question: Question, k: int) -> str | None:
    """Why there is nothing to say of undecided samples; None where there is."""
    if not (pair.failed_PR.any() or pair.unverified_PR.any()):
        return "no sample is undecided (failed or unverified)"
    if pair.per is not Per.PROBLEM:
        return "which answer an undecided sample gave is not known; use --per problem"
    if question.rule is not Rule.SEEN:
        return "bounds over undecided samples are defined for the rule 'seen'"
    if ((pair.until_R > 0) & (pair.budget_R > k)).any():
        return "where a run stopped depends on its undecided samples, so at less than its budget there are no bounds"
    return None


def _without_unread(run: Run, notes: list[Note]) -> Run:
    """The run without the samples in which no answer was found.

    A sensitivity check, never the default: a model that does not write a readable answer did not solve the problem.
    """
    if run.verdicts is None or run.budget.until:
        raise OffleashError(
            f"{run.name!r} has counts only or stopped early, so unread samples cannot be dropped; omit --unread drop."
        )
    unread = pl.col("verdict").eq_missing(pl.lit(Verdict.UNREAD.value, VERDICT))
    rows = int(run.verdicts.select(unread.sum()).collect(engine="streaming").item())
    notes.append(Note(f"{run.name}: unread samples were left out (--unread drop)", rows, left_out=True))
    kept = run.verdicts.filter(~unread)
    samples = None if run.samples is None else run.samples.join(kept, on=["problem", "index"], how="semi")
    return replace(run, verdicts=kept, samples=samples)


def _notes_of(run: Run) -> tuple[Note, ...]:
    """The notes of a run under its name: two runs may have files of the same name."""
    return tuple(replace(note, text=f"{run.name}: {note.text}") for note in run.notes)


def _verdict_notes(counted: AlignedTally) -> tuple[Note, ...]:
    """A note per run on samples without a verdict: they may still turn out correct, so they count as not drawn."""
    notes = []
    for r, run in enumerate(counted.tally.runs):
        unverified = int(counted.tally.unverified_PR[:, r].sum())
        if unverified:
            notes.append(Note(f"{run}: samples without a verdict are not counted", unverified, left_out=True))
    return tuple(notes)
