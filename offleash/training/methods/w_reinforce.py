"""Weighted REINFORCE: wrong samples pushed down, correct ones up a little (Zhu et al., arXiv:2506.01347)."""

from offleash.training.method import Average, Method
from offleash.training.methods.grpo import clipped
from offleash.training.methods.weighting import Signed
from offleash.training.methods_options import at_least


def w_reinforce(weight: float = 0.1, clip: float = 0.2) -> Method:
    """Rewards of `+weight` (the paper's lambda) and -1; with 0 it is nsr, with 1 plain REINFORCE on +1 and -1."""
    return Method(Signed(at_least("weight", weight, 0)), clipped(clip, 0.0, Average.TOKEN))
