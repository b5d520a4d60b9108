"""The table of problems: its tests against enumeration, its lists against those of the comparison, its reasons."""

import json
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import offleash as ol
from offleash.comparing.compare import compare
from offleash.comparing.evidence import GREEDY
from offleash.comparing.per_problem import detail, problem_table
from offleash.comparing.question import question
from offleash.reporting.figures import subject
from offleash.reporting.page.problems import table as page_table
from offleash.stats.chance import benjamini_hochberg
from tests.cli.command import offleash
from tests.comparing.test_compare import run_folder
from tests.comparing.world import drawn, write_log
from tests.places import EXAMPLES

COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")


def frame(drawn_P: list[int], correct_P: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"problem": [f"p{p:03}" for p in range(len(drawn_P))], "n": drawn_P, "c": correct_P})


def tails(n0: int, c0: int, n1: int, c1: int) -> tuple[float, float]:
    """One-sided Fisher by enumeration: the chance of at most, and of at least, c1 successes in the run after."""
    every = {c: comb(n1, c) * comb(n0, c0 + c1 - c) for c in range(c0 + c1 + 1)}
    total = comb(n0 + n1, c0 + c1)
    at_most, at_least = (sum(v for c, v in every.items() if keep(c)) for keep in (c1.__ge__, c1.__le__))
    return at_most / total, at_least / total


def test_both_tests_equal_enumeration_with_unequal_numbers_of_samples() -> None:
    """k = 4, and 6 samples were drawn after: all of them are tested."""
    pairs = list(product(range(5), range(7)))
    before = frame([4] * len(pairs), [c for c, _ in pairs])
    after = frame([6] * len(pairs), [c for _, c in pairs])
    comparison = ol.compare(before, after, replicates=100).comparison
    rows, tally = problem_table(comparison), comparison.counted.tally
    assert comparison.change.k == 4
    expected = [min(1.0, 2 * min(tails(4, c0, 6, c1))) for c0, c1 in pairs]
    assert rows["p"].to_list() == pytest.approx(expected)
    assert rows["q"].to_list() == pytest.approx(benjamini_hochberg(expected).tolist())
    for row, (c0, c1) in zip(rows.iter_rows(named=True), tally.correct_PR.tolist(), strict=True):
        assert (
            row["class"]
            == {(True, True): "P", (False, True): "E", (True, False): "S", (False, False): "O"}[c0 > 0, c1 > 0]
        )
        low, high = tails(4, c0, 6, c1)
        wanted = {"S": low, "E": high}.get(row["class"])
        assert row["p_class"] == (None if wanted is None else pytest.approx(wanted))


def test_the_lists_of_the_comparison_are_those_of_the_table() -> None:
    document = ol.compare(*COUNTS, replicates=200).to_dict()
    rows = document["problems"]
    assert list(rows[0]) == [
        *("id", "benchmark", "class", "n_before", "c_before", "n_after", "c_after"),
        *("p", "q", "change", "p_class", "q_class"),
    ]
    for letter, name in (("S", "lost"), ("E", "gained")):
        significant = [row for row in rows if row["class"] == letter and row["q_class"] <= 0.05]
        ordered = sorted(significant, key=lambda row: row["p_class"])
        assert [row["id"] for row in ordered] == document["chance"][name]
    assert {letter: sum(row["class"] == letter for row in rows) for letter in "PESO"} == {
        letter: document["support"][letter] for letter in "PESO"
    }
    fell = {row["id"] for row in rows if row["change"] == "fell"}
    assert fell == {row["id"] for row in rows if row["q"] <= 0.05 and row["c_after"] < row["c_before"]}
    assert document["problems_reasons"] == {}


def test_swapping_the_runs_swaps_losses_with_gains_and_falls_with_rises() -> None:
    there, back = (problem_table(ol.compare(*pair, replicates=100).comparison) for pair in (COUNTS, COUNTS[::-1]))
    assert there["p"].to_list() == pytest.approx(back["p"].to_list())
    swapped = {"P": "P", "O": "O", "S": "E", "E": "S", "fell": "rose", "rose": "fell", None: None}
    for column in ("class", "change"):
        assert [swapped[value] for value in there[column].to_list()] == back[column].to_list()
    assert there["q_class"].to_list() == pytest.approx(back["q_class"].to_list())


def test_the_page_and_the_plane_have_the_numbers_of_the_table() -> None:
    figures = subject([comparison := ol.compare(*COUNTS, replicates=100).comparison], None, ())
    rows, page = problem_table(comparison), page_table(figures.detail, set())
    assert page["p"] == [float(f"{p:.2g}") for p in rows["p"]]
    assert page["class"] == "".join(rows["class"])
    sure = [row for row, q in enumerate(rows["q_class"]) if q is not None and q <= 0.05]
    assert page["sure"] == sure


def test_undetermined_problems_have_the_class_u_and_no_test_of_it() -> None:
    pair = frame([8, 8, 8], [8, 1, 0]), frame([8, 8, 8], [0, 8, 8])
    rows = problem_table(ol.compare(*pair, rule="confident", replicates=100).comparison)
    assert "U" in rows["class"].to_list()
    undetermined = rows.filter(pl.col("class") == "U")
    assert undetermined["p_class"].null_count() == undetermined.height
    assert rows["p"].null_count() == 0


def test_a_rule_that_allows_some_successes_tests_the_fall_of_the_rate() -> None:
    pair = frame([16, 16], [12, 4]), frame([16, 16], [1, 4])
    row = problem_table(ol.compare(*pair, rule="above", tau=0.2, replicates=100).comparison).row(0, named=True)
    assert row["class"] == "S"
    assert row["p_class"] == pytest.approx(tails(16, 12, 16, 1)[0])


def test_runs_that_stopped_have_a_test_of_losses_alone_and_say_why(tmp_path: Path) -> None:
    hits_PN = np.zeros((3, 32), dtype=bool)
    hits_PN[0, [1, 3]] = hits_PN[1, [0, 20]] = True
    stopped = run_folder(tmp_path / "base", hits_PN, until=2)
    after = hits_PN.copy()
    after[0] = False
    other = run_folder(tmp_path / "rl", after, until=2)
    comparison = compare(stopped, other, question(replicates=100))
    rows = problem_table(comparison)
    assert rows["p"].null_count() == rows["q"].null_count() == rows["change"].null_count() == 3
    assert rows["class"].to_list() == ["S", "P", "O"]
    assert rows["p_class"].to_list() == [pytest.approx(comb(4, 2) / comb(4 + 32, 2)), None, None]
    assert set(detail(comparison).reasons) == {"p"}
    assert "stopped at a success" in detail(comparison).reasons["p"]
    fewer = compare(stopped, other, question(replicates=100, at=8))
    assert problem_table(fewer)["p_class"].null_count() == 3
    assert set(detail(fewer).reasons) == {"p", "p_class"}


def test_greedy_runs_are_not_tested(tmp_path: Path) -> None:
    from dataclasses import replace

    pair = [ol.load(write_log(tmp_path / f"{name}.jsonl", drawn(6, 4, seed))) for name, seed in (("a", 0), ("b", 1))]
    greedy = [replace(run, facts=run.facts | {"decoding": json.dumps({"temperature": 0})}) for run in pair]
    comparison = compare(greedy[0], greedy[1], question(replicates=100))
    rows = problem_table(comparison)
    assert rows["p"].null_count() == rows["p_class"].null_count() == rows.height
    assert detail(comparison).reasons == {"p": GREEDY, "p_class": GREEDY}


def test_every_comparison_of_several_runs_has_its_own_problems() -> None:
    document = offleash("compare", *COUNTS, f"again={COUNTS[0]}", "--json", "--replicates", "100").json
    first, last = document["comparisons"]
    assert document["problems"] == last["problems"] != first["problems"]
    assert {row["change"] for row in last["problems"]} == {None}
