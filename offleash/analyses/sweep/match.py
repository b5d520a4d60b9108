"""Entropy-matched comparison: what RL lost at equal decoding, and what is left of it at equal token entropy.

RL makes a model surer of itself, so at the same temperature it explores less. Yue et al. (arXiv:2504.13837) therefore
raise the temperature of the model after RL until its token entropy equals that of the base, and compare both again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from offleash.analyses.sweep.family import Family, Member, family
from offleash.analyses.sweep.pilots import SIZE, Pilots, no_entropy
from offleash.analyses.sweep.points import token_entropy
from offleash.analyses.sweep.runs import labels, place, way
from offleash.analyses.sweep.search import Search, match_temperature
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.decodings import DECODING
from offleash.comparing.question import Question
from offleash.comparing.tally import Counted, tally
from offleash.data.run import Run
from offleash.progress import Progress, silent
from offleash.samplers.models import Model
from offleash.samplers.sampler import Decoding
from offleash.stats.binomials import Float, Integer, log_miss
from offleash.stats.classes import reach_PRK
from offleash.stats.few import Estimate, mean_of
from offleash.stats.intervals import REPLICATES, percentile_intervals, problem_sums, pseudo_weights, strata
from offleash.verifying.verify import Verifying

RUNS = ("before", "equal", "matched")


@dataclass(frozen=True)
class Recovered:
    """Problems that the model before reaches, by what the model after does at equal decoding and at equal entropy."""

    reached: float  # by the model before
    lost: float  # at equal decoding
    lost_matched: float  # at equal entropy
    back: float  # lost at equal decoding, and reached at equal entropy
    gone: float  # reached at equal decoding, and lost at equal entropy
    chance: float  # `back`, and `gone`, if temperature did nothing: samples of both runs shuffled; NaN for one run
    share: Estimate  # of the loss at equal decoding that goes away: 1 - lost_matched/lost; NaN where nothing was lost


@dataclass(frozen=True)
class Matched:
    """Two models at equal decoding and at equal token entropy."""

    names: tuple[str, str]  # of the models
    decoding: Decoding  # of the model before, and of both at equal decoding
    search: Search
    folders: Mapping[str, Path]  # of RUNS
    entropy: Mapping[str, Estimate]  # token entropy of the k samples of RUNS: those of the match are not its pilots'
    gap: Estimate  # of the match, minus that of the model before: what the pilots left
    equal: Comparison
    matched: Comparison
    recovered: Recovered
    pilot: int  # samples a problem in a pilot

    @property
    def temperature(self) -> float:
        return self.search.temperature


def entropy_matched(
    problems: pl.DataFrame,
    before: Model,
    after: Model,
    decoding: Decoding,
    k: str,
    into: Path,
    seed: int = 0,
    progress: Progress = silent,
    verifying: Verifying | None = None,
    names: tuple[str, str] = ("", ""),
) -> Matched:
    """Draw both models at a decoding, find the temperature at which the second has the first's token entropy, compare.

    Run again after a kill, it goes on where it was: runs and pilots stand in folders below `into`.
    """
    named = labels(((names[0], before), (names[1], after)), into)
    first, second = Member(named[0], before), Member(named[1], after)
    with family(into, problems, k, seed, verifying or Verifying(), progress) as runs_of:
        runs_of.check((first, second), (decoding,))
        runs = [
            runs_of.run(one, decoding, f"{one.label} at {way(decoding)}", f"{one.label} at {way(decoding)}")
            for one in (first, second)
        ]
        return match_runs(runs_of, (first, second), decoding, (runs[0], runs[1]), "matching")


def match_runs(
    runs_of: Family, members: tuple[Member, Member], decoding: Decoding, pair: tuple[Run, Run], told: str
) -> Matched:
    """The same, with both runs at equal decoding drawn already."""
    before, after = members
    k = runs_of.budget
    counted = tally(pair, k, runs_of.seed)
    target_P = token_entropy(pair[0], counted, 0, k)
    if target_P is None:
        raise no_entropy(pair[0].facts.get("model", pair[0].name))
    search = _search(runs_of, after, decoding, counted, target_P, told)
    warm = replace(decoding, temperature=search.temperature)
    name = f"{after.label} at {way(warm)}"
    # a match at the very same decoding is the same run
    third = pair[1] if warm == decoding else runs_of.run(after, warm, name, f"{told}: {name}")
    runs = (pair[0], pair[1], third)
    runs_of.progress(f"{told}: comparing")
    question = Question(at=k, seed=runs_of.seed, allow=frozenset({DECODING}))
    equal = compare(runs[0], runs[1], question)
    matched = equal if third is pair[1] else compare(runs[0], third, question)
    together = tally([replace(run, name=name) for run, name in zip(runs, RUNS, strict=True)], k, runs_of.seed)
    stands = ((before, decoding), (after, decoding), (after, warm))
    folders = [place(runs_of.folder, one.label, how) for one, how in stands]
    return Matched(
        (before.label, after.label),
        decoding,
        search,
        dict(zip(RUNS, folders, strict=True)),
        *_entropies(together, runs),
        equal,
        matched,
        _recovered(together, third is pair[1]),
        SIZE,
    )


def _search(runs_of: Family, after: Member, decoding: Decoding, counted: Counted, target_P: Float, told: str) -> Search:
    """Pilots of the problems that both runs have."""
    asked = counted.problems.select("problem").join(counted.own[1], on="problem", maintain_order="left")
    problems = asked.select(problem="own").join(runs_of.problems, on="problem", how="left", maintain_order="left")
    sampler = runs_of.sampler(after.model)
    where = runs_of.folder / after.label
    pilots = Pilots(sampler, str(after.model), problems, decoding, runs_of.seed, where, runs_of.progress, told)
    try:
        return match_temperature(pilots.entropy, target_P, decoding.temperature, strata(counted.tally.benchmark_P))
    finally:
        pilots.forget()


def _entropies(counted: Counted, runs: tuple[Run, Run, Run]) -> tuple[dict[str, Estimate], Estimate]:
    """Token entropies of RUNS, and that of the match less that of the model before, problem by problem."""
    value, stratum_P = {}, strata(counted.tally.benchmark_P)
    for r, name in enumerate(RUNS):
        value_P = token_entropy(runs[r], counted, r, counted.tally.head)
        if value_P is None:
            raise no_entropy(runs[r].facts.get("model", name))
        value[name] = value_P
    gap = mean_of(value["matched"] - value["before"], stratum_P, -np.inf)
    return {name: mean_of(value_P, stratum_P) for name, value_P in value.items()}, gap


def moved_by_chance(drawn_P2: Integer, correct_P2: Integer, k: int) -> Float:
    """Chance of each problem that k samples miss it and k others reach it, all taken from two runs together.

    That is what a redraw alone does: were the law the same at both temperatures, a sample could be in either run.
    """
    drawn_P, correct_P = drawn_P2.sum(axis=1), correct_P2.sum(axis=1)
    return np.asarray(np.exp(log_miss(drawn_P, correct_P, k)) - np.exp(log_miss(drawn_P, correct_P, 2 * k)))


def _recovered(counted: Counted, same: bool) -> Recovered:
    """From a tally of RUNS: counts at its k, thinned where more was drawn; the last two may be the same run."""
    a_P, b_P, m_P = reach_PRK(counted.tally, np.array([counted.tally.head]))[:, :, 0].T
    lost_P2 = np.stack([a_P * (1 - b_P), a_P * (1 - m_P)], axis=1)
    lost, matched = lost_P2.sum(axis=0).tolist()
    # four pseudo-problems of the model before: lost at both, at either alone, at none
    weight_B4 = pseudo_weights(4, len(a_P), REPLICATES, 0)
    sums_B2 = problem_sums(lost_P2, strata(counted.tally.benchmark_P)) + weight_B4[:, :2] + weight_B4[:, 2:3]
    moved_P = moved_by_chance(counted.tally.drawn_PR[:, 1:], counted.tally.correct_PR[:, 1:], counted.tally.head)
    share = 1 - matched / lost if lost > 0 else float("nan")
    interval = percentile_intervals((1 - sums_B2[:, 1] / sums_B2[:, 0])[:, None], np.array([share]))[0]
    return Recovered(
        reached=float(a_P.sum()),
        lost=lost,
        lost_matched=matched,
        back=float((a_P * (1 - b_P) * m_P).sum()),
        gone=float((a_P * b_P * (1 - m_P)).sum()),
        chance=float("nan") if same else float((a_P * moved_P).sum()),
        share=Estimate(share, interval),
    )
