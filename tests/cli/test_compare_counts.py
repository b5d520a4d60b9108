"""Comparing files of counts: the journey, the JSON contract, and counts that cannot be right."""

import csv
from pathlib import Path

import pytest

from tests.cli.command import offleash, refused
from tests.places import EXAMPLES

COUNTS = EXAMPLES / "counts"


def counts(path: Path, rows: list[tuple[object, ...]], header: tuple[str, ...] = ("problem", "n", "c")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_the_example_shows_the_leash() -> None:
    result = offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv")
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "rl no longer reaches 21 of the 163 problems that base reaches (the rate fell on at least 10 of them" in text
    assert text.index("Within 1,024 samples") > text.index("pass@k"), "the headline stands last"


def test_the_json_has_every_key_that_other_tools_rely_on() -> None:
    document = offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv", "--json").json
    assert document["schema"] == 2
    support = document["support"]
    assert {"P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR", "rule", "per", "k", "interval"} <= support.keys()
    assert support["P"] + support["E"] + support["S"] + support["O"] == 200
    assert set(support["interval"]) == {"SRR", "NDR", "SDS", "NSCR"}
    assert list(document["pass_at_k"]["before"]) == [str(2**i) for i in range(11)]
    assert document["pass_at_k"]["difference_interval"].keys() == document["pass_at_k"]["after"].keys()
    chance = document["chance"]
    assert {"expected_E", "expected_S", "p_E", "p_S", "mcnemar_p", "losses_at_least", "gains_at_least"} <= chance.keys()
    assert {"net_ratio", "gain", "k"} <= chance["retest"].keys()
    assert set(chance["strength"]["S"]) == {"weak", "middle", "strong"}
    assert document["crossing"]["interval"][0] <= document["crossing"]["k"] <= document["crossing"]["interval"][1]
    assert document["equivalent_budget"]["k"] > 1
    assert document["epsilon"] == pytest.approx(2.9957 / 1024, rel=1e-4)
    assert set(document["benchmarks"]) == {"easy", "hard"}
    assert {"guessing", "runs"} <= document.keys()


def test_swapping_the_runs_swaps_lost_and_gained() -> None:
    there = offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv", "--json").json
    back = offleash("compare", COUNTS / "rl.csv", COUNTS / "base.csv", "--json").json
    assert there["support"]["S"] == back["support"]["E"]
    assert there["chance"]["lost"] == back["chance"]["gained"]
    assert there["chance"]["losses_at_least"] == back["chance"]["gains_at_least"]
    assert there["support"]["NSCR"] == pytest.approx(-back["support"]["NSCR"])


def test_a_budget_below_n_gives_thinned_tables_that_add_up(tmp_path: Path) -> None:
    document = offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv", "--at", "64", "--json").json
    support = document["support"]
    assert support["k"] == 64
    assert document["epsilon"] == pytest.approx(2.9957 / 64, rel=1e-4)
    assert support["P"] + support["E"] + support["S"] + support["O"] == pytest.approx(200)
    assert (support["P"] + support["S"]) / 200 == pytest.approx(document["pass_at_k"]["before"]["64"])
    assert document["chance"]["basis"] == "all samples (n = 1,024 before, 1,024 after)"


def test_different_budgets_are_cut_to_the_smaller_and_said(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [(i, 64, i) for i in range(10)])
    rl = counts(tmp_path / "rl.csv", [(i, 16, i) for i in range(10)])
    result = offleash("compare", base, rl, "--json")
    assert result.json["support"]["k"] == 16
    assert any("budgets differ" in note["text"] for note in result.json["notes"])


def test_ragged_budgets_offer_to_leave_out_the_short_problems(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [(i, 64 if i else 4, min(i, 4)) for i in range(10)])
    result = offleash("compare", base, counts(tmp_path / "rl.csv", [(i, 64, i) for i in range(10)]), "--json").json
    assert result["support"]["k"] == 4
    assert any("--at 64" in note["text"] for note in result["notes"])
    longer = offleash("compare", base, tmp_path / "rl.csv", "--at", "64", "--json").json
    assert longer["support"]["k"] == 64
    assert longer["runs"]["before"]["problems"] == 9
    assert any(note["left_out"] and note["rows"] == 1 for note in longer["notes"])


def test_problems_that_one_run_lacks_are_counted_and_left_out(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [(i, 8, 1) for i in range(10)])
    rl = counts(tmp_path / "rl.csv", [(i, 8, 1) for i in range(7)])
    document = offleash("compare", base, rl, "--json").json
    assert document["runs"]["before"]["problems"] == 7
    assert any(note["left_out"] and note["rows"] == 3 for note in document["notes"])


def test_a_problem_without_samples_is_left_out_and_counted(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [(0, 0, 0), (1, 8, 2), (2, 8, 0)])
    document = offleash("compare", base, counts(tmp_path / "rl.csv", [(0, 8, 1), (1, 8, 1), (2, 8, 1)]), "--json").json
    assert document["runs"]["before"]["problems"] == 2
    assert any("no verified sample" in note["text"] and note["rows"] == 1 for note in document["notes"])


def test_metrics_that_are_undefined_are_null_with_the_reason(tmp_path: Path) -> None:
    none = counts(tmp_path / "none.csv", [(i, 8, 0) for i in range(5)])
    document = offleash("compare", f"a={none}", f"b={none}", "--json").json
    for metric in ("SRR", "NDR", "SDS", "NSCR"):
        assert document["support"][metric] is None
        assert document["support"]["reasons"][metric]
    assert offleash("compare", f"a={none}", f"b={none}").code == 0


def test_one_sample_a_problem_is_compared_and_warned_about(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [(i, 1, i % 2) for i in range(20)])
    result = offleash("compare", base, counts(tmp_path / "rl.csv", [(i, 1, int(i % 3 == 0)) for i in range(20)]))
    assert result.code == 0
    assert "k is only 1" in result.out


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((1, 8, 9), ("9", "8")),
        ((1, -1, 0), ("-1",)),
        ((1, 8, -2), ("-2",)),
        ((1, "many", 2), ("many",)),
        ((1, 8, 2.5), ("2.5",)),
        ((0, 8, 2), ("0",)),
    ],
)
def test_counts_that_cannot_be_right_are_refused_with_their_row(
    tmp_path: Path, row: tuple[object, ...], words: tuple[str, ...]
) -> None:
    bad = counts(tmp_path / "bad.csv", [(0, 8, 1), row])
    refused(offleash("compare", bad, counts(tmp_path / "rl.csv", [(0, 8, 1), (1, 8, 1)])), "bad.csv", "3", *words)


def test_semicolons_separate_as_well_as_commas(tmp_path: Path) -> None:
    (tmp_path / "base.csv").write_text("problem;n;c\na;8;1\nb;8;0\n")
    assert offleash("compare", f"x={tmp_path}/base.csv", f"y={tmp_path}/base.csv", "--json").json["support"]["P"] == 1


def test_a_mistake_in_the_first_row_is_named_as_one(tmp_path: Path) -> None:
    bad = counts(tmp_path / "bad.csv", [(0, "many", 1)])
    refused(offleash("compare", bad, bad), "bad.csv", "row 2", "many")


def test_no_common_problem_is_refused_with_the_first_ids(tmp_path: Path) -> None:
    base = counts(tmp_path / "base.csv", [("a", 8, 1)])
    refused(offleash("compare", base, counts(tmp_path / "rl.csv", [("b", 8, 1)])), "no problem in common", "'a'", "'b'")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--at", "4096"), ("4096", "1024")),
        (("--at", "0"), ("--at 0",)),
        (("--rule", "sen"), ("'sen'", "seen")),
        (("--per", "problm"), ("problem",)),
        (("--unread", "dropp"), ("drop",)),
        (("--rule", "above", "--tau", "1.5"), ("1.5",)),
        (("--tau", "0.1"), ("--tau", "'seen'", "--rule above")),
        (("--rule", "confident", "--tau", "0.1"), ("'confident'", "--rule above")),
        (("--rule", "certified"), ("certificates",)),
        (("--per", "answer"), ("answer",)),
        (("--guess", "2"), ("2",)),
        (("--replicates", "5"), ("5",)),
        (("--before", "bas"), ("base",)),
        (("--map", "verdict"), ("NAME=COLUMN",)),
        (("--log-format", "lm_evl"), ("lm_eval",)),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_next_step(
    option: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv", *option), *words)


def test_one_run_alone_is_refused() -> None:
    refused(offleash("compare", COUNTS / "base.csv"), "two runs", "base")


def test_a_missing_file_suggests_the_nearest() -> None:
    refused(offleash("compare", COUNTS / "bse.csv", COUNTS / "rl.csv"), "bse.csv", "base.csv")


@pytest.mark.parametrize("rule", ["above", "confident", "posterior"])
def test_every_rule_gives_a_table_of_all_problems(rule: str) -> None:
    options = ("--rule", rule, *(("--tau", "0.1") if rule == "above" else ()), "--json")
    support = offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv", *options).json["support"]
    assert support["rule"] == rule
    assert support["P"] + support["E"] + support["S"] + support["O"] + support["undetermined"] == 200


def test_several_runs_are_checkpoints_with_a_union() -> None:
    base, rl = COUNTS / "base.csv", COUNTS / "rl.csv"
    result = offleash("compare", base, f"step1={rl}", f"step2={base}", "--json").json
    assert [comparison["runs"]["after"]["name"] for comparison in result["comparisons"]] == ["step1", "step2"]
    assert result["support"]["S"] == 0
    assert result["union"]["k_samples_of_each"]["S"] == 0
    assert offleash("compare", base, f"step1={rl}", f"step2={base}").code == 0


def test_a_given_guess_floor_marks_what_guessing_explains() -> None:
    options = ("--guess", "0.001", "--json")
    guessing = offleash("compare", COUNTS / "base.csv", COUNTS / "rl.csv", *options).json["guessing"]
    assert guessing["floor"] == "given"
    assert guessing["guess_support"]["before"] > 0
    assert guessing["support_without"]["P"] <= 142


def test_plan_advises_a_budget_from_a_pilot() -> None:
    document = offleash("plan", "samples", COUNTS / "base.csv", "--json").json
    assert document["advised_k"] >= 1024
    settled = [row["settled"] for row in document["budgets"]]
    assert settled == sorted(settled)
    assert all(row["samples_with_until"] <= row["samples"] for row in document["budgets"])
    refused(offleash("plan", "samples", COUNTS / "base.csv", "--settle", "2"), "2")


def test_every_verb_has_help_with_examples() -> None:
    for verb in ("compare", "import", "plan samples", "formats"):
        result = offleash(*verb.split(), "--help")
        assert result.code == 0
        assert f"offleash {verb}" in result.out


def test_a_name_of_two_lines_is_refused() -> None:
    refused(offleash("compare", f"a<b>\nx={COUNTS / 'base.csv'}", COUNTS / "rl.csv"), "one line", "'a<b>\\nx'")
    assert offleash("compare", f"a <b>={COUNTS / 'base.csv'}", COUNTS / "rl.csv", "--replicates", "100").code == 0
