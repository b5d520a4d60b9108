"""Training for pass@k instead of pass@1."""

from dataclasses import dataclass
from math import comb, sqrt

import numpy as np

from offleash.errors import OffleashError
from offleash.training.method import Average, Floats, Method, RolloutGroup, check_set_size, count
from offleash.training.methods.baselines import LeaveOneOut
from offleash.training.methods.grpo import clipped


@dataclass(frozen=True)
class SetAdvantage:
    """The mean advantage of all sets of k samples of the group that a sample is in; a set's reward is its best."""

    k: int

    def __call__(self, group: RolloutGroup) -> Floats:
        check_set_size(self.k, group.size)
        right_G = group.reward_G > 0
        wrong = group.size - int(right_G.sum())
        failing_share = comb(wrong, self.k) / comb(group.size, self.k)  # share of sets without a correct sample
        sigma = sqrt(failing_share * (1 - failing_share))
        if not sigma:  # every set passes or none does: nothing to compare
            return np.zeros(group.size)
        failing_share_with = comb(wrong - 1, self.k - 1) / comb(group.size - 1, self.k - 1)  # of a wrong sample's sets
        return np.where(right_G, failing_share, failing_share - failing_share_with) / sigma


def pass_at_k(k: int = 4, clip: float = 0.2, kl: float = 0.0) -> Method:
    """Pass@k training with analytic advantages (Chen et al., arXiv:2508.10751).

    Rewards sets of k samples for their best: a problem that is solved often enough has no gradient left.

    With k = 1 it is grpo with delta = 0.
    """
    return Method(SetAdvantage(count("k", k, 1)), clipped(clip, kl))


@dataclass(frozen=True)
class PassGradient:
    """Weights whose mean over the samples, times the gradients of their log-probabilities, is that of pass@k.

    The paper's weights, to be summed, are `k/n` for a correct sample and `(k/n) rho(n-1, c, k-1)` for a wrong one;
    here they are times n, because the loss takes the mean. The baseline never knows its sample: each set of k is
    compared with itself without the sample (equation 33, which the paper calls PKPO), or, where `equal`, with the
    mean weight of the others in sets of k without it (equation 29). One sample alone is compared with the mean of
    the others (equation 26).
    """

    k: int
    equal: bool = False

    def __call__(self, group: RolloutGroup) -> Floats:
        n, k = group.size, self.k
        check_set_size(k, n)
        if k == 1:
            return LeaveOneOut()(group)
        right_G = group.reward_G > 0
        c = int(right_G.sum())
        weight_G = np.where(right_G, float(k), k * rho(n - 1, c, k - 1))
        return weight_G - self._baseline(right_G, c)

    def _baseline(self, right_G: np.ndarray, c: int) -> Floats:
        n, k = len(right_G), self.k
        if not self.equal:
            return k * np.where(right_G, rho(n - 1, c - 1, k - 1), rho(n - 1, c, k - 1))
        if k == n:
            raise OffleashError(
                f"equal needs sets of k = {k} samples without the sample itself, but a group has only {n - 1} others. "
                f"Choose k up to {n - 1}, draw larger groups, or leave equal out."
            )
        return k * n / (n - 1) * np.where(right_G, rho(n - 1, c - 1, k), rho(n - 1, c, k))


def rho(n: int, c: int, k: int) -> float:
    """Chance that k of n samples, c of them correct, include a correct one."""
    return 1 - comb(max(n - c, 0), k) / comb(n, k) if c > 0 else 0.0


def pkpo(k: int = 4, equal: bool = False, clip: float = 0.2, kl: float = 0.0) -> Method:
    """Pass@k policy optimization: unbiased gradients of pass@k (Walder and Karkhanis, arXiv:2505.15201).

    The gradient of pass@k itself, terms of tokens summed; with k = 1 it is rloo.
    """
    return Method(PassGradient(count("k", k, 1), equal), clipped(clip, kl, Average.CONSTANT))
