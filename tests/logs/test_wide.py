"""Wide tables: one file with columns for both runs gives what two files would."""

import csv
import random
from pathlib import Path

import polars as pl
import pytest

import offleash as ol
from offleash.errors import OffleashError
from offleash.loading.wide import columns_by_run
from tests.logs.plain_counts import Counts, assert_same

RNG = random.Random(7)
ROWS: list[dict[str, object]] = [
    {"problem": f"p{number}", "k": 8, "c_base": RNG.choice([0, 0, 1, 5]), "c_rl": RNG.choice([0, 2, 8])}
    for number in range(25)
]
BOTH = {"base:c": "c_base", "rl:c": "c_rl", "n": "k"}


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def counted(path: Path, column: str) -> Counts:
    with path.open() as file:
        return {row["problem"]: (int(row["k"]), int(row[column])) for row in csv.DictReader(file)}


def test_a_wide_table_of_counts_is_that_of_two_files(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", ROWS)
    alone = [
        write(tmp_path / f"{name}.csv", [{"problem": row["problem"], "n": 8, "c": row[f"c_{name}"]} for row in ROWS])
        for name in ("base", "rl")
    ]
    assert_same(counted(wide, "c_base"), counted(wide, "c_rl"), *alone)
    reading = ol.Reading(columns=BOTH)
    one, two = ol.compare(wide, reading=reading).to_dict(), ol.compare(*alone).to_dict()
    assert one["support"] == two["support"]
    assert one["pass_at_k"] == two["pass_at_k"]
    assert [one["runs"][side]["name"] for side in ("before", "after")] == ["base", "rl"]
    frame = ol.compare(pl.DataFrame(ROWS), reading=reading).to_dict()
    assert frame["support"] == two["support"]


def test_the_order_of_the_runs_is_that_of_their_first_mention(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", ROWS)
    turned = {"rl:c": "c_rl", "base:c": "c_base", "base:n": "k", "rl:n": "k"}
    support = ol.compare(wide, reading=ol.Reading(columns=turned)).to_dict()["support"]
    there = ol.compare(wide, reading=ol.Reading(columns=BOTH)).to_dict()["support"]
    assert (support["E"], support["S"]) == (there["S"], there["E"])


SAMPLES: list[dict[str, object]] = [
    {
        "question": f"What is {number} + 1?",
        "gold": number + 1,
        "base_out": f"\\boxed{{{number + 1 + (number + sample) % 3}}}",
        "rl_out": f"\\boxed{{{number + 1 + number % 4}}}",
        "base_ok": int((number + sample) % 3 == 0),
        "rl_ok": int(number % 4 == 0),
    }
    for number in range(12)
    for sample in range(4)
]


def sampled(column: str) -> Counts:
    counts: dict[object, tuple[int, int]] = {}
    for row in SAMPLES:
        n, c = counts.get(row["question"], (0, 0))
        counts[row["question"]] = (n + 1, c + (row[column] == 1))
    return counts


def support(counts: tuple[Counts, Counts]) -> dict[str, int]:
    base, rl = counts
    reached = [(base[problem][1] > 0, rl[problem][1] > 0) for problem in base]
    return {
        name: reached.count(pair)
        for name, pair in zip("PESO", [(True, True), (False, True), (True, False), (False, False)], strict=True)
    }


@pytest.mark.parametrize("texts", [False, True])
def test_a_wide_table_of_samples_is_read_with_verdicts_and_texts(texts: bool, tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", SAMPLES)
    columns = {"base:verdict": "base_ok", "rl:verdict": "rl_ok"}
    if texts:
        columns |= {"base:text": "base_out", "rl:text": "rl_out"}
    document = ol.compare(wide, reading=ol.Reading(columns=columns)).to_dict()
    assert {name: document["support"][name] for name in "PESO"} == support((sampled("base_ok"), sampled("rl_ok")))
    assert document["runs"]["before"]["samples"] == len(SAMPLES)


def test_a_wide_table_of_texts_is_judged(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", SAMPLES)
    reading = ol.Reading(columns={"base:text": "base_out", "rl:text": "rl_out"})
    document = ol.compare(wide, reading=reading, verifier="math").to_dict()
    assert {name: document["support"][name] for name in "PESO"} == support((sampled("base_ok"), sampled("rl_ok")))


@pytest.mark.parametrize("texts", [False, True])
def test_extracted_answers_of_a_wide_table_are_judged_in_place_of_the_texts(texts: bool, tmp_path: Path) -> None:
    table = [
        {**row, "base_answer": row["base_out"], "rl_answer": row["rl_out"], "base_out": "Who knows?", "rl_out": "Well."}
        for row in SAMPLES
    ]
    wide = write(tmp_path / "wide.csv", table)
    columns = {"base:answer": "base_answer", "rl:answer": "rl_answer"}
    if texts:
        columns |= {"base:text": "base_out", "rl:text": "rl_out"}
    document = ol.compare(wide, reading=ol.Reading(columns=columns), verifier="math").to_dict()
    assert {name: document["support"][name] for name in "PESO"} == support((sampled("base_ok"), sampled("rl_ok")))


def test_two_files_with_columns_of_their_own(tmp_path: Path) -> None:
    base = write(tmp_path / "a.csv", [{"problem": row["problem"], "k": 8, "hits": row["c_base"]} for row in ROWS])
    rl = write(tmp_path / "b.csv", [{"problem": row["problem"], "k": 8, "won": row["c_rl"]} for row in ROWS])
    reading = ol.Reading(columns={"base:c": "hits", "rl:c": "won", "n": "k"})
    document = ol.compare(f"base={base}", f"rl={rl}", reading=reading).to_dict()
    wide = ol.compare(write(tmp_path / "wide.csv", ROWS), reading=ol.Reading(columns=BOTH)).to_dict()
    assert document["support"] == wide["support"]
    with pytest.raises(OffleashError, match=r"columns of the runs base, rl; found a, b.*base=FILE rl=FILE"):
        ol.compare(base, rl, reading=reading)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"base:c": "c_base", "n": "k"}, "names a column of one run only, 'base'.*--map OTHER:c=COLUMN"),
        ({"base:c": "c_base", "rl:c": "c_rl", "bse:n": "k"}, "the run 'base' c, but not n, which 'bse' has"),
        ({"base:c": "c_bas", "rl:c": "c_rl", "n": "k"}, "no column 'c_bas'.*Did you mean 'c_base'"),
        ({":c": "c_base", "rl:c": "c_rl"}, "lacks the run or the name"),
        ({**BOTH, "problem": ""}, "no column for the problem"),
    ],
)
def test_what_does_not_fit_is_refused(columns: dict[str, str], message: str, tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", ROWS)
    with pytest.raises(OffleashError, match=message):
        ol.compare(wide, reading=ol.Reading(columns=columns))


def test_other_verbs_name_what_is_for_compare(tmp_path: Path) -> None:
    wide = write(tmp_path / "wide.csv", ROWS)
    with pytest.raises(OffleashError, match="--map base:c=c_base names one of several runs in a file"):
        ol.load(wide, reading=ol.Reading(columns=BOTH))


def test_names_without_a_run_are_those_of_all() -> None:
    assert columns_by_run({"n": "k", "a:c": "x", "b:c": "y"}) == {"a": {"n": "k", "c": "x"}, "b": {"n": "k", "c": "y"}}
