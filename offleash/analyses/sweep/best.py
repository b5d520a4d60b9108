"""The best decoding of each model against that of the other: chosen on one half of the problems, tested on the other.

Chosen and tested on the same problems, the best of many decodings is overestimated, and more so for the luckier model.
Every split is used both ways; intervals resample problems and choose again in every replicate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offleash.samplers.sampler import SamplingParams
from offleash.stats.binomials import Float, Integer
from offleash.stats.intervals import Interval, percentile_intervals, problem_sums, pseudo_weights
from offleash.stats.support_classes import ratio

HALVINGS = 10  # random splits into halves, each used both ways: what one split happens to choose averages out
REPLICATES = 2_000  # fewer than elsewhere: each replicate chooses again on every half
METRICS = ("before", "after", "difference", "SRR", "NDR", "NSCR")


# P, E and S that two draws of one model would show on some problems, in place of the decodings of both models
RedrawFunction = Callable[[NDArray[np.bool_], int, int], Float]


@dataclass(frozen=True)
class BestDecodingCounts:
    """Problems reached by both models, by the one after only, by the one before only, by neither; and METRICS."""

    P: float
    E: float
    S: float
    O: float  # noqa: E741  the paper's name
    value: dict[str, float]
    redraw: dict[str, float] | None = None  # METRICS of two draws of one model; None where they are not computed

    @classmethod
    def of(cls, sums_4: Float, redraw_3: Float | None = None) -> "BestDecodingCounts":
        """From P, E, S and the number of problems, and what two draws of one model would show."""
        P, E, S, total = sums_4.tolist()
        left = max(0.0, total - P - E - S)
        same = None
        if redraw_3 is not None:
            redrawn_P, redrawn_E, redrawn_S = redraw_3.tolist()
            same = {name: float(ratio(name, redrawn_P, redrawn_E, redrawn_S, total)) for name in METRICS}
        return cls(P, E, S, left, {name: float(ratio(name, *sums_4)) for name in METRICS}, same)


@dataclass(frozen=True)
class BestDecoding:
    """Both models at their best decodings."""

    decoding: tuple[SamplingParams, SamplingParams]  # chosen on all problems, to be used
    chosen: tuple[float, float]  # the share of halves on which that very decoding is chosen
    fitted: BestDecodingCounts  # cross-fitted: of decodings that other problems chose
    interval: dict[str, Interval]  # of `fitted`
    in_sample: BestDecodingCounts  # of those chosen on all problems, on the same ones: pass@k of both is biased upwards
    halvings: int


@dataclass(frozen=True)
class _HalfSums:
    """Sums over problems of one half in B replicates: of each side's reach, of both together, and of the problems."""

    before_BG: Float
    after_BG: Float
    both_BGG: Float
    size_B: Float


def best_against_best(
    before_PG: Float,
    after_PG: Float,
    decodings: Sequence[SamplingParams],
    stratum_P: Integer,
    seed: int = 0,
    replicates: int = REPLICATES,
    redraw_of: RedrawFunction | None = None,
) -> BestDecoding | None:
    """Both models at their best decodings, cross-fitted.

    Args:
        before_PG: chance that the model before reaches each problem at each of G decodings.
        after_PG: the same of the model after.
        decodings: the G decodings.
        stratum_P: benchmark of each problem; intervals resample within benchmarks.
        seed: of the splits and of the resampling.
        replicates: of the bootstrap.
        redraw_of: P, E and S that two draws of one model would show on some problems, by the decodings of both sides.

    Returns:
        Counts P, E, S, O and ratios on problems that did not choose the decodings, with intervals; None with fewer than
        two decodings or problems, where there is nothing to choose or to test on.
    """
    problems, decoding_count = before_PG.shape
    if decoding_count < 2 or problems < 2:
        return None
    rng = np.random.default_rng([seed, problems])
    half_P, cells_B4, cells_4 = np.arange(problems) < problems // 2, np.zeros((replicates, 4)), np.zeros(4)
    redraw_3 = np.zeros(3)
    chosen_pairs: list[tuple[int, int]] = []  # the decodings that each half chooses, for `chosen`
    for _ in range(HALVINGS):  # both directions of a split count every problem once, so a split sums to all problems
        rng.shuffle(half_P)
        for learn_P, test_P in ((half_P, ~half_P), (~half_P, half_P)):
            selecting, test = (
                _sums(before_PG, after_PG, rows_P, stratum_P, seed, replicates) for rows_P in (learn_P, test_P)
            )
            cells_B4 += _cross_fitted(selecting, test) / HALVINGS
            selecting, test = (_sums(before_PG, after_PG, rows_P, stratum_P, None) for rows_P in (learn_P, test_P))
            cells_4 += _cross_fitted(selecting, test)[0] / HALVINGS
            chosen_pairs.append((int(selecting.before_BG[0].argmax()), int(selecting.after_BG[0].argmax())))
            if redraw_of is not None:
                redraw_3 += redraw_of(test_P, *chosen_pairs[-1]) / HALVINGS
    # What to use from now on is chosen on all problems; only its reported value has to come from other problems.
    used = int(before_PG.sum(axis=0).argmax()), int(after_PG.sum(axis=0).argmax())
    # Once, after the splits are summed: together they count every problem once, so this adds four pseudo-problems.
    cells_B4 += _pseudo_weights(problems, seed, replicates)
    fitted, interval = BestDecodingCounts.of(cells_4, None if redraw_of is None else redraw_3), {}
    for name in METRICS:
        ends = percentile_intervals(ratio(name, *cells_B4.T)[:, None], np.array([fitted.value[name]]))
        interval[name] = ends[0]
    chosen = tuple(float(np.mean([pair[side] == used[side] for pair in chosen_pairs])) for side in (0, 1))
    all_P = np.ones(problems, np.bool_)
    totals = _sums(before_PG, after_PG, all_P, stratum_P, None)
    best_decodings = decodings[used[0]], decodings[used[1]]
    in_sample_redraw_3 = None if redraw_of is None else redraw_of(all_P, *used)
    in_sample = BestDecodingCounts.of(_cross_fitted(totals, totals)[0], in_sample_redraw_3)
    return BestDecoding(best_decodings, (chosen[0], chosen[1]), fitted, interval, in_sample, HALVINGS)


def _sums(
    before_PG: Float,
    after_PG: Float,
    rows_P: NDArray[np.bool_],
    stratum_P: Integer,
    seed: int | None,
    replicates: int = 1,
) -> _HalfSums:
    """Sums over some problems, with the weights of every replicate; of weight 1 without a seed."""
    problems, G = before_PG.shape
    both_PQ = (before_PG[:, :, None] * after_PG[:, None, :]).reshape(problems, G * G)
    value_PQ = np.concatenate([before_PG, after_PG, both_PQ, np.ones((problems, 1))], axis=1) * rows_P[:, None]
    # The weights are those of all problems under one seed, also for a half: replicate b of both halves is one
    # resampled world, so that choosing on one and testing on the other stays paired.
    unweighted_1Q = value_PQ.sum(axis=0)[None]
    sums_BQ = unweighted_1Q if seed is None else problem_sums(value_PQ, stratum_P, replicates, seed)
    both_BGG = sums_BQ[:, 2 * G : -1].reshape(-1, G, G)
    return _HalfSums(sums_BQ[:, :G], sums_BQ[:, G : 2 * G], both_BGG, sums_BQ[:, -1])


def _cross_fitted(selecting: _HalfSums, test: _HalfSums) -> Float:
    """P, E, S and the number of problems on the half `test`, at the decodings that are best on the half `selecting`.

    In each replicate the decodings are chosen again, so that the interval includes the uncertainty of the choice.
    """
    row_B, before_B, after_B = np.arange(len(test.size_B)), selecting.before_BG.argmax(1), selecting.after_BG.argmax(1)
    both_B = test.both_BGG[row_B, before_B, after_B]
    lost_B, gained_B = test.before_BG[row_B, before_B] - both_B, test.after_BG[row_B, after_B] - both_B
    return np.stack([both_B, gained_B, lost_B, test.size_B], axis=1)


def _pseudo_weights(problems: int, seed: int, replicates: int) -> Float:
    """Pseudo-problems, one in each of P, E, S and O: without them a cell of 0 has no width."""
    weight_B4 = pseudo_weights(4, problems, replicates, seed)
    return np.concatenate([weight_B4[:, :3], weight_B4.sum(axis=1, keepdims=True)], axis=1)
