"""Holds a comparison of logs to counts made by a script that imports nothing of the package.

A script is a function from the files of one run to {problem: (samples, correct)}, where a problem is whatever value
tells two of them apart in that format. From two such tables the classes and pass@1 follow in a few lines.
"""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pytest

import offleash as ol

Counts = Mapping[Hashable, tuple[int, int]]


def assert_same(base_counts: Counts, rl_counts: Counts, base: str | Path, rl: str | Path, **options: Any) -> None:
    """`ol.compare(base, rl)` has the problems, P/E/S/O and pass@1 of the two tables.

    P/E/S/O are by the rule `seen` at one budget for both runs: where the numbers of samples differ, the package thins
    the larger run, so fixtures for this check have the same number of samples per problem in both.
    """
    document = ol.compare(base, rl, **options).to_dict()
    shared = [problem for problem in base_counts if problem in rl_counts]
    reached = [(base_counts[problem][1] > 0, rl_counts[problem][1] > 0) for problem in shared]
    classes = {
        "P": reached.count((True, True)),
        "E": reached.count((False, True)),
        "S": reached.count((True, False)),
        "O": reached.count((False, False)),
    }
    assert {name: document["support"][name] for name in "PESO"} == classes
    for side, counts in (("before", base_counts), ("after", rl_counts)):
        run = document["runs"][side]
        assert run["problems"] == len(shared)
        assert run["problems_in_run"] == len(counts)
        assert run["samples"] == sum(counts[problem][0] for problem in shared)
        rates = [counts[problem][1] / counts[problem][0] for problem in shared]
        assert document["pass_at_k"][side]["1"] == pytest.approx(sum(rates) / len(rates), abs=1e-12)
