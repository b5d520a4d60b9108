"""Group sequence policy optimization (Zheng et al., arXiv:2507.18071)."""

from offleash.training.method import Average, Loss, Method, Ratio
from offleash.training.methods.grpo import spread
from offleash.training.methods_options import at_least, bound


def gspo(low: float = 3e-4, high: float = 4e-4, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """The ratio of whole samples, `(pi(o) / pi_old(o))^(1 / length)`, clipped as one.

    The clips are the paper's: the geometric mean over many tokens moves little. Short samples move more, so that
    after the first update of the same samples most are clipped; widen the clips there.
    """
    loss = Loss(
        low=bound("low", low),
        high=bound("high", high),
        ratio=Ratio.SEQUENCE,
        average=Average.SAMPLE,
        kl=at_least("kl", kl, 0),
    )
    return Method(spread(delta), loss)
