"""Clip-Cov: some of the tokens that drive the entropy down lose their gradient (Cui et al., arXiv:2505.22617)."""

from math import inf

from offleash.errors import OffleashError
from offleash.training.method import Chosen, Loss, Method
from offleash.training.methods.grpo import spread
from offleash.training.methods_options import fraction


def clip_cov(share: float = 2e-4, low: float = 1.0, high: float = 5.0, delta: float = 1e-4) -> Method:
    """A random share of tokens is left out, among those whose covariance lies between `low` and `high`.

    The numbers are the paper's. There is no clip of the ratio: the tokens left out take its place.
    """
    if not low <= high:
        raise OffleashError(f"low = {low} lies above high = {high}: no covariance is between. Exchange them.")
    loss = Loss(low=inf, high=inf, chosen=Chosen.CLIP_COV, share=fraction("share", share), band=(low, high))
    return Method(spread(delta), loss)
