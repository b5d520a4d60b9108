"""Planted pairs of every fingerprint, by its name."""

from collections.abc import Callable

from tests.analyses.strategies.planted.pair import Pair
from tests.analyses.strategies.planted.planted_countdown import planted_countdown
from tests.analyses.strategies.planted.planted_program import planted_program
from tests.analyses.strategies.planted.planted_steps import planted_steps

PLANTED: dict[str, Callable[[int], list[Pair]]] = {
    "countdown": planted_countdown,
    "steps": planted_steps,
    "program": planted_program,
}
