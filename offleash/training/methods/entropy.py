"""Token entropy: learn more where the policy is uncertain, or keep its entropy from collapsing."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from offleash.errors import OffleashError
from offleash.training.method import Floats, Loss, Method, RolloutGroup, TokenSelection, above, at_least, fraction
from offleash.training.methods.grpo import clipped, group_normalised, normalised


@dataclass(frozen=True)
class EntropyShaped:
    """`A_t + min(alpha H_t, |A_t| / kappa)` per token; kappa > 1 keeps the sign of every advantage."""

    alpha: float = 0.4
    kappa: float = 2.0
    delta: float = 1e-4

    def __call__(self, group: RolloutGroup) -> Floats:
        advantage_G1 = normalised(group.reward_G, self.delta)[:, None]
        bonus_GT = np.minimum(self.alpha * group.entropy_GT, np.abs(advantage_G1) / self.kappa)
        return np.asarray(advantage_G1 + bonus_GT, np.float64)


def entropy_advantage(
    alpha: float = 0.4, kappa: float = 2.0, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Advantages shaped by entropy: uncertain tokens are learned more strongly (Cheng et al., arXiv:2506.14758).

    Grpo with a bonus on uncertain tokens; the entropy is that of the drawing policy and has no gradient.
    """
    shaped = EntropyShaped(at_least("alpha", alpha, 0), above("kappa", kappa, 1), above("delta", delta, 0))
    return Method(shaped, clipped(clip, kl))


def clip_cov(share: float = 2e-4, low: float = 1.0, high: float = 5.0, delta: float = 1e-4) -> Method:
    """Clip-Cov: some of the tokens that drive the entropy down lose their gradient (Cui et al., arXiv:2505.22617).

    A random share of tokens is left out, among those whose covariance lies between `low` and `high`.

    The defaults are the paper's. The ratio is not clipped: leaving tokens out replaces the clip.
    """
    if not low <= high:
        raise OffleashError(f"low = {low} is above high = {high}, so no covariance lies between them. Swap them.")
    loss = Loss(low=inf, high=inf, chosen=TokenSelection.CLIP_COV, share=fraction("share", share), band=(low, high))
    return Method(group_normalised(delta), loss)


def kl_cov(share: float = 2e-3, penalty: float = 1.0, delta: float = 1e-4) -> Method:
    """KL-Cov: a penalty on the tokens that drive the entropy down (Cui et al., arXiv:2505.22617).

    A KL penalty to the drawing policy acts on the share of tokens whose log-probability and advantage covary most.

    There is no clip, as in the paper, whose shares are 2e-3 (7B) and 2e-4 (32B), with a penalty of 1. The KL has no
    gradient where the policy is still the one that drew the samples: the method acts from the second update of the
    same samples on, and is REINFORCE with grpo's advantages when there is only one.
    """
    loss = Loss(
        low=inf,
        high=inf,
        chosen=TokenSelection.KL_COV,
        share=fraction("share", share),
        penalty=at_least("penalty", penalty, 0),
    )
    return Method(group_normalised(delta), loss)


def top_entropy(share: float = 0.2, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Learning only at the forks: the tokens with the highest entropy (Wang et al., arXiv:2506.01939).

    Grpo whose policy gradient acts only on the share of the step's tokens where the policy was most uncertain.
    """
    loss = replace(clipped(clip, kl), chosen=TokenSelection.TOP_ENTROPY, share=fraction("share", share))
    return Method(group_normalised(delta), loss)
