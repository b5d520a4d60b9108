"""RL interleaved with supervised steps on what it cannot solve (Ma et al., ReLIFT, arXiv:2506.07527)."""

from offleash.training.method import Method, Schedule
from offleash.training.methods.grpo import clipped, spread
from offleash.training.methods_options import count


def interleaved_sft(
    sft_every: int = 4, sft_steps: int = 1, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Grpo, and every few steps supervised ones on traces of problems whose group was all wrong.

    The paper waits until a batch of such problems has been gathered; here the interval is fixed.
    """
    schedule = Schedule(sft_every=count("sft_every", sft_every, 1), sft_steps=count("sft_steps", sft_steps, 1))
    return Method(spread(delta), clipped(clip, kl), schedule)
