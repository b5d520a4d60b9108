"""Examine: every statement checked, the mechanisms told apart, and the world in which pass@k falls, with one seed."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from offleash.analyses.theory.leash import Leash, leash
from offleash.analyses.theory.mechanisms import CELLS, RECIPES, Effect, Mechanism, effects, mechanism
from offleash.analyses.theory.statements.registry import STATEMENTS
from offleash.analyses.theory.statements.statement import Finding, Statement


@dataclass(frozen=True)
class Examined:
    """All that `offleash theory` says."""

    seed: int
    statements: tuple[tuple[Statement, Finding], ...]
    mechanisms: tuple[Mechanism, ...]
    effects: tuple[Effect, ...]
    leash: Leash
    seconds: float


def examine(seed: int = 0, progress: Callable[[str], None] = lambda _: None) -> Examined:
    """Check all statements, run the table of mechanisms, and find the world; about half a minute on one core."""
    begun = time.monotonic()
    checked = []
    for statement in STATEMENTS.values():
        progress(f"checking {statement.name}: {statement.says}")
        checked.append((statement, statement.check(seed)))
    cells: list[Mechanism] = []
    for number, (method, name) in enumerate([(method, name) for method in RECIPES for name in CELLS], 1):
        progress(f"training, {method}, {name} ({number} of {len(RECIPES) * len(CELLS)})")
        cells.append(mechanism(method, name, seed))
    progress("looking for a world in which pass@1 rises and pass@k falls")
    found = leash(seed)
    return Examined(seed, tuple(checked), tuple(cells), tuple(effects(cells)), found, time.monotonic() - begun)
