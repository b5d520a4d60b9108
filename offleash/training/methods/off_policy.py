"""Learning from outside: expert traces join the group (Yan et al., LUFFY, arXiv:2504.14945)."""

from dataclasses import replace

from offleash.training.method import Method, Schedule
from offleash.training.methods.grpo import clipped, spread
from offleash.training.methods_options import above, count


def mixed_policy(
    experts: int = 1, shaping: float = 0.1, clip: float = 0.2, kl: float = 0.0, delta: float = 1e-4
) -> Method:
    """Experts are normalised with the group; their tokens use `pi / (pi + shaping)` in place of the ratio, unclipped.

    A group whose own samples are all wrong still has a gradient, towards the trace; unlikely tokens of the trace
    are not lost, because the shaped weight is steepest there.
    """
    loss = replace(clipped(clip, kl), shaping=above("shaping", shaping, 0))
    return Method(spread(delta), loss, Schedule(experts=count("experts", experts, 1)))
