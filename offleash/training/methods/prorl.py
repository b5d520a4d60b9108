"""Prolonged reinforcement learning (Liu et al., ProRL, arXiv:2505.24864)."""

from dataclasses import replace

from offleash.training.method import Method
from offleash.training.methods.dapo import dapo
from offleash.training.methods_options import above, at_least, count


def prorl(
    high: float = 0.4,
    temperature: float = 1.2,
    kl: float = 0.001,
    reset_after: int = 3,
    overlong: float = 0.0,
    delta: float = 1e-4,
) -> Method:
    """Dapo with a wider upper clip, hot samples, and a KL to a reference that is reset when validation stalls.

    Clips (0.2 and 0.4) and temperature are the paper's, section 3.2; it takes groups of 16, which the recipe sets,
    and no soft overlong penalty. It gives no weight of the KL: 0.001 is the default of verl, which it trained with
    (NVIDIA's later configuration of ProRL v2 has 0.0001). It resets by hand; here after `reset_after` validations
    without a better one.
    """
    method = dapo(high=high, overlong=overlong, delta=delta)
    return Method(
        method.advantages,
        replace(method.loss, kl=at_least("kl", kl, 0)),
        replace(
            method.schedule,
            temperature=above("temperature", temperature, 0),
            reset_after=count("reset_after", reset_after, 0),
        ),
    )
