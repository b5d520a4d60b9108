"""Planted pairs of every fingerprint, by its name."""

from collections.abc import Callable

from offleash.verifiers.ways.pair import Pair
from offleash.verifiers.ways.planted_countdown import planted_countdown
from offleash.verifiers.ways.planted_program import planted_program
from offleash.verifiers.ways.planted_steps import planted_steps

PLANTED: dict[str, Callable[[int], list[Pair]]] = {
    "countdown": planted_countdown,
    "steps": planted_steps,
    "program": planted_program,
}
