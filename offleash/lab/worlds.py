"""The worlds of the lab, by name."""

from offleash.errors import unknown
from offleash.lab.chain_sum import CHAIN_SUM
from offleash.lab.countdown import COUNTDOWN
from offleash.lab.world import World

WORLDS: dict[str, World] = {"countdown": COUNTDOWN, "chain_sum": CHAIN_SUM}


def world(name: str) -> World:
    """A world by its name."""
    if name not in WORLDS:
        raise unknown("world", name, WORLDS)
    return WORLDS[name]
