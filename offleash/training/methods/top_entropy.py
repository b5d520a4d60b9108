"""Learning only at the forks: the tokens with the highest entropy (Wang et al., arXiv:2506.01939)."""

from dataclasses import replace

from offleash.training.method import Chosen, Method
from offleash.training.methods.grpo import clipped, spread
from offleash.training.methods_options import fraction


def top_entropy(share: float = 0.2, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4) -> Method:
    """Grpo whose policy gradient reaches only the share of the step's tokens where the policy was least sure."""
    loss = replace(clipped(clip, kl), chosen=Chosen.TOP_ENTROPY, share=fraction("share", share))
    return Method(spread(delta), loss)
