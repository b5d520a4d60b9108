"""How the table could mislead: confirmation by halves, the verifier's errors, undecided samples, power."""

from dataclasses import dataclass, replace

import numpy as np

from offleash.data.tally import Tally
from offleash.stats.binomials import Float, Integer, log_miss
from offleash.stats.chance import lost_by_exchange
from offleash.stats.classes import AFTER, BEFORE


@dataclass(frozen=True)
class Confirmation:
    """Lost (or gained) problems that show in both halves of the samples, and how many a redraw would confirm."""

    confirmed: float
    redraw: float


def confirmation(drawn_P2: Integer, correct_P2: Integer) -> dict[str, Confirmation]:
    """S and E that a split of the samples would confirm, in expectation over all splits, without splitting."""
    swapped = drawn_P2[:, ::-1], correct_P2[:, ::-1]
    return {"S": _confirmed(drawn_P2, correct_P2), "E": _confirmed(*swapped)}


def tipping_rate(found: float, neither: float, k: int) -> float:
    """False-positive rate a sample that would explain all `found` of the problems that one run alone reached.

    The candidates are the found ones and those that neither reached; NaN when there is no such rate below 1.
    """
    if found <= 0 or neither <= 0 or k <= 0:
        return float("nan")
    return float(-np.expm1(np.log1p(-found / (found + neither)) / k))


def reached_by_error(rate: float, k: int) -> float:
    """Share of impossible problems that a false-positive rate a sample puts into the support at budget k."""
    return float(-np.expm1(k * np.log1p(-rate)))


def undecided_bounds(tally: Tally) -> tuple[Tally, Tally]:
    """The tally with every undecided sample (failed, unverified) wrong, and with every one right."""
    drawn_PR = tally.drawn_PR + tally.unverified_PR
    right_PR = tally.correct_PR + tally.failed_PR + tally.unverified_PR
    return replace(tally, drawn_PR=drawn_PR), replace(tally, drawn_PR=drawn_PR, correct_PR=right_PR)


def smallest_certain_loss(k: int, problems: int, alpha: float = 0.05) -> int | None:
    """Successes before, against none after, that survive Bonferroni over the problems; None when k is too small."""
    hits = np.arange(1, k + 1)
    sure = np.flatnonzero(log_miss(2 * k, k, hits) <= np.log(alpha / max(problems, 1)))
    return int(hits[sure[0]]) if sure.size else None


def chance_of_detection(rate: Float, k: int, least: int) -> Float:
    """Chance that a problem of each rate, if lost, shows the successes before that make its loss certain."""
    from scipy.stats import binom

    return np.asarray(binom.sf(least - 1, k, rate), dtype=np.float64)


def _confirmed(drawn_P2: Integer, correct_P2: Integer) -> Confirmation:
    drawn_P, correct_P = drawn_P2[:, BEFORE], correct_P2[:, BEFORE]
    lost_P = (correct_P >= 1) & (correct_P2[:, AFTER] == 0)
    total_P = correct_P2.sum(axis=1)
    return Confirmation(
        float(_both_halves(drawn_P, correct_P)[lost_P].sum()),
        float((lost_by_exchange(drawn_P2, correct_P2) * _both_halves(drawn_P, np.minimum(total_P, drawn_P))).sum()),
    )


def _both_halves(drawn_P: Integer, correct_P: Integer) -> Float:
    """Chance that both halves of a random split hold a success; 0 for fewer than two."""
    even_P = drawn_P - drawn_P % 2  # of an odd number one sample is set aside
    miss_P = np.exp(log_miss(drawn_P, correct_P, even_P // 2))
    neither_P = np.exp(log_miss(drawn_P, correct_P, even_P))
    return np.where(correct_P >= 2, 1 - 2 * miss_P + neither_P, 0.0)
