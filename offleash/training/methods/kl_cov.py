"""KL-Cov: a penalty on the tokens that drive the entropy down (Cui et al., arXiv:2505.22617)."""

from math import inf

from offleash.training.method import Chosen, Loss, Method
from offleash.training.methods.grpo import spread
from offleash.training.methods_options import at_least, fraction


def kl_cov(share: float = 2e-3, penalty: float = 1.0, delta: float = 1e-4) -> Method:
    """The share of tokens whose log-probability and advantage covary most is held at the policy that drew it.

    There is no clip, as in the paper, whose shares are 2e-3 (7B) and 2e-4 (32B), with a penalty of 1. The KL has no
    gradient where the policy is still the one that drew the samples: the method acts from the second update of the
    same samples on, and is REINFORCE with grpo's advantages when there is only one.
    """
    loss = Loss(
        low=inf,
        high=inf,
        chosen=Chosen.KL_COV,
        share=fraction("share", share),
        penalty=at_least("penalty", penalty, 0),
    )
    return Method(spread(delta), loss)
