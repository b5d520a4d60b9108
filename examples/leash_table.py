"""A table of several demos, a row each: python examples/leash_table.py seed0.json seed1.json ...

Each file is what `offleash demo --seed S --json -o DIR` printed.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEAD = (
    "| file | pass@1 base | pass@1 RL | times | pass@k base | pass@k RL | difference [95%] "
    "| S | by chance | p | E | base again S, E | solutions kept | seconds |"
)


def row(name: str, found: Mapping[str, Any], rest: list[str]) -> str:
    """One comparison of a demo, per problem, k the largest; `rest` are the last cells."""
    passes, support, chance = (found[key] for key in ("pass_at_k", "support", "chance"))
    k = str(support["k"])
    before, after = passes["before"], passes["after"]
    low, high = passes["difference_interval"][k]
    cells = [
        name,
        f"{before['1']:.3f}",
        f"{after['1']:.3f}",
        f"{after['1'] / before['1']:.2f}",
        f"{before[k]:.3f}",
        f"{after[k]:.3f}",
        f"{after[k] - before[k]:+.3f} [{low:+.3f}, {high:+.3f}]",
        f"{support['S']:g}",
        f"{chance['expected_S']:.1f}",
        f"{chance['p_S']:.1g}" if chance["p_S"] else "< 1e-300",
        f"{support['E']:g}",
        *rest,
    ]
    return "| " + " | ".join(cells) + " |"


def main(paths: list[str]) -> None:
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for path in paths:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        again, solutions = (found[key]["support"] for key in ("base_again", "per_solution"))
        rest = [
            f"{again['S']:g}, {again['E']:g}",
            f"{solutions['P']:g} of {solutions['P'] + solutions['S']:g}",
            f"{found['seconds']:.0f}",
        ]
        print(row(Path(path).stem, found, rest))
        print(row(f"{Path(path).stem}, 0.6 / 0.95", found["paper_decoding"], ["", "", ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
