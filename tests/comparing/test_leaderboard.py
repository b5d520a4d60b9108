"""The leaderboard: every run with pass@1, pass@k and its rates, as the comparisons have them, in every output."""

from pathlib import Path

import pytest

import offleash as ol
from offleash.comparing.headline import Finding
from offleash.comparing.leaderboard import leaderboard
from offleash.reporting.page.build import class_table
from offleash.results.result import shown
from tests.reporting.worlds import spread, write_counts

NAMES = ("base", "grpo", "dapo", "ppo")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ol.ComparisonResult:
    folder = tmp_path_factory.mktemp("runs")
    base, _ = spread(60, 48)
    counts = [base, *(spread(60, 48, seed)[1] for seed in range(3))]
    files = [write_counts(folder / f"{name}.csv", correct, 48) for name, correct in zip(NAMES, counts, strict=True)]
    return ol.compare(*files, replicates=200, at=40)


def test_rows_are_the_runs_in_their_order_with_the_values_of_the_comparisons(result: ol.ComparisonResult) -> None:
    rows = leaderboard(result.comparisons)
    assert [row.run for row in rows] == list(NAMES)
    first, *others = rows
    assert (first.SRR, first.NDR, first.NSCR, first.redraw, first.finding) == (None,) * 5
    for row, comparison in zip(others, result.comparisons, strict=True):
        change = comparison.change
        for name in ("SRR", "NDR", "NSCR"):
            estimate = row.rate(name)
            assert estimate is not None
            assert (estimate.value, estimate.interval) == (change.value[name], change.interval[name])
        assert row.pass_at_1 is not None
        assert row.pass_at_k is not None
        assert row.pass_at_1.value == comparison.curves["after"].value_K[0]
        # within k samples, a run reaches P and E
        assert row.pass_at_k.value == pytest.approx((change.P + change.E) / change.problems)
        assert row.pass_at_k.interval.low < row.pass_at_k.value < row.pass_at_k.interval.high
        assert change.redraw is not None
        assert row.redraw is not None
        assert row.redraw["SRR"] == change.redraw.value["SRR"]


def test_json_has_a_row_per_run_and_none_for_two_runs(result: ol.ComparisonResult, tmp_path: Path) -> None:
    rows = result.to_dict()["leaderboard"]
    assert [row["run"] for row in rows] == list(NAMES)
    assert [set(row) for row in rows] == [set(rows[0])] * len(NAMES)
    assert rows[1]["SRR"]["value"] == result.to_dict()["comparisons"][0]["support"]["SRR"]
    assert rows[0]["SRR"] is None
    pair = [write_counts(tmp_path / f"{name}.csv", [3, 0, 5], 8) for name in ("base", "rl")]
    assert "leaderboard" not in ol.compare(*pair, replicates=100).to_dict()


def test_the_terminal_fits_80_columns_and_shows_every_rate_beside_a_redraw(result: ol.ComparisonResult) -> None:
    lines = shown(result, width=80).splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.split()[:3] == ["run", "pass@1", "pass@40"]]
    assert lines[head].split() == ["run", "pass@1", "pass@40", "SRR", "redraw", "NDR", "NSCR"]
    for row in leaderboard(result.comparisons)[1:]:
        (number,) = [i for i in range(head, head + 12) if lines[i].split()[:1] == [row.run]]
        assert row.SRR is not None
        assert row.redraw is not None
        assert lines[number].split()[3:5] == [f"{row.SRR.value:.3f}", f"{row.redraw['SRR']:.3f}"]
        ends = f"{row.SRR.interval.low:.3f},{row.SRR.interval.high:.3f}".replace("0.", ".")
        assert ends in lines[number + 1]


def test_no_table_of_two_draws_of_one_model_has_a_low_SRR_without_the_redraw_value_in_its_row(tmp_path: Path) -> None:
    """One success in 16 on every problem: two draws of the model differ on many, and each SRR says what is usual."""
    import numpy as np

    rng = np.random.default_rng(5)
    files = [write_counts(tmp_path / f"draw{i}.csv", rng.binomial(16, 0.06, 80).tolist(), 16) for i in range(4)]
    result = ol.compare(*files, replicates=200, runs_are="methods")
    for row in leaderboard(result.comparisons)[1:]:
        assert row.SRR is not None
        assert row.redraw is not None
        assert row.SRR.value < 0.95
        assert row.SRR.interval.low < row.redraw["SRR"] < row.SRR.interval.high
    text = result.report_text("md")
    table = text.split("| run (95% intervals) |")[1].split("\n\n")[0]
    for row in leaderboard(result.comparisons)[1:]:
        (line,) = [line for line in table.splitlines() if f"`{row.run}`" in line]
        assert row.redraw is not None
        assert f" {row.redraw['SRR']:.3f} " in line


def test_terminal_markdown_and_page_have_the_finding_of_every_run(tmp_path: Path) -> None:
    base, lost = [24] * 40, [0] * 20 + [24] * 20
    counts = {"base": base, "lost": lost, "same": base}
    files = [write_counts(tmp_path / f"{name}.csv", correct, 48) for name, correct in counts.items()]
    result = ol.compare(*files, replicates=200)
    findings = {row.run: row.finding for row in leaderboard(result.comparisons)}
    assert findings == {"base": None, "lost": Finding.SHRANK, "same": Finding.NO_CHANGE}
    rows = [line.split() for line in shown(result, width=80).splitlines()]
    assert ["lost", "20", "0", "20", "0", "20", "0", "shrank"] in rows
    assert ["same", "40", "0", "0", "0", "0", "0", "no", "change"] in rows
    assert [line for line in result.report_text("md").splitlines() if line.startswith("| `lost`")][1].endswith(
        "| shrank |"
    )
    table = class_table(result.subject())
    assert [row[-1] for row in table.rows] == ["shrank", "no change"]
