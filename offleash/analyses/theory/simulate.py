"""Simulate: samples of any policy, counted as a tally, so that every statistic of a study applies to a known truth."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from offleash.analyses.theory.drawing import draw
from offleash.analyses.theory.world import Float, Integer, World
from offleash.data.tally import UNKNOWN, Tally
from offleash.errors import OffleashError


@dataclass(frozen=True)
class Simulation:
    """Drawn answers of R policies, and their tally."""

    tally: Tally
    answer_RXN: Integer


def simulate(
    world: World, policies: Mapping[str, Float], samples: int, seed: int = 0, head: int | None = None
) -> Simulation:
    """Draw `samples` answers a problem from each of the named probabilities (X by Y) and count what is correct.

    `head` is the budget of the tests that need integers; by default all samples.
    """
    first = samples if head is None else head
    if not 1 <= first <= samples:
        raise OffleashError(f"A head of {first} samples needs at least as many drawn, and at least 1; found {samples}.")
    if not policies:
        raise OffleashError("Name at least one policy to draw from.")
    answer_RXN = np.stack(
        [draw(p_XY, samples, np.random.default_rng([seed, r])) for r, p_XY in enumerate(policies.values())]
    )
    hit_RXN = np.stack([np.take_along_axis(world.correct_XY, answer_XN, axis=1) for answer_XN in answer_RXN])
    return Simulation(_tally(tuple(policies), hit_RXN, first), answer_RXN)


def problem_names(problems: int) -> list[str]:
    """Names of problems that sort in their order."""
    return [f"x{x:0{len(str(max(problems - 1, 0)))}d}" for x in range(problems)]


def _tally(runs: tuple[str, ...], hit_RXN: np.ndarray, head: int) -> Tally:
    hit_XRN = hit_RXN.swapaxes(0, 1)
    problems, _, samples = hit_XRN.shape
    correct_XR = hit_XRN.sum(axis=2, dtype=np.int64)
    zero_XR = np.zeros_like(correct_XR)
    return Tally(
        runs=runs,
        problem_P=np.array(problem_names(problems), dtype=np.str_),
        benchmark_P=np.full(problems, "", dtype=np.str_),
        guess_P=np.full(problems, np.nan),
        drawn_PR=np.full_like(correct_XR, samples),
        correct_PR=correct_XR,
        unread_PR=zero_XR,
        failed_PR=zero_XR,
        unverified_PR=zero_XR,
        truncated_PR=zero_XR,
        first_PR=np.where(correct_XR > 0, hit_XRN.argmax(axis=2), UNKNOWN),
        head_PR=hit_XRN[:, :, :head].sum(axis=2, dtype=np.int64),
        head=head,
        stopped_PR=np.zeros_like(correct_XR, dtype=bool),
        budget_R=np.full(len(runs), samples, dtype=np.int64),
        until_R=np.zeros(len(runs), dtype=np.int64),
        ordered_R=np.ones(len(runs), dtype=bool),
    )
