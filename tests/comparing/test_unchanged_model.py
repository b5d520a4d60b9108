"""The same model drawn twice: every table that shows an SRR below .95 has the SRR of a redraw in the same row."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offleash.comparing.compare import Comparison
from offleash.comparing.guessing import guessing
from offleash.comparing.json_sections import comparison_json
from offleash.comparing.question import Question
from offleash.comparing.runs import compare_inputs
from offleash.comparing.tally import tally
from offleash.data.tally import tally_of_counts
from offleash.loading.load import load
from offleash.reporting.comparison import document
from offleash.reporting.figures import subject
from offleash.reporting.latex import latex
from offleash.reporting.markdown import markdown
from offleash.reporting.page.build import leaderboard_table
from offleash.reporting.page.tiles import rates
from offleash.stats.chance import retest
from offleash.stats.support_classes import Rule
from tests.cli.command import offleash

NEAR = 0.95


def counts(path: Path, rng: np.random.Generator, rate_P: np.ndarray, n: int) -> Path:
    """A file of counts of one draw: problems of two benchmarks with four options."""
    rows = [
        f"p{i},{n},{rng.binomial(n, rate)},{'small' if i % 4 == 0 else 'large'},0.25" for i, rate in enumerate(rate_P)
    ]
    path.write_text("problem,n,c,benchmark,guess\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(params=[("beta", 64), ("flat", 16)], ids=lambda world: world[0])
def draws(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Three draws of one model whose rates are near the guess floor."""
    shape, n = request.param
    rng = np.random.default_rng(7)
    rate_P = rng.beta(6, 12, 120) if shape == "beta" else np.full(120, 0.30)
    return [str(counts(tmp_path / f"{name}.csv", rng, rate_P, n)) for name in ("one", "two", "three")]


def tables(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a document that has a rate called SRR."""
    if isinstance(value, dict):
        if isinstance(value.get("SRR"), float | int):
            yield path, value
        for key, part in value.items():
            yield from tables(part, f"{path}/{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from tables(part, f"{path}/{number}")


def compared(draws: list[str], rule: str = "seen") -> list[Comparison]:
    tau = 0.3 if rule == "above" else 0.0
    return compare_inputs(draws, question=Question(rule=Rule(rule), tau=tau, replicates=200))[0]


@pytest.mark.parametrize("rule", ["seen", "above", "confident", "posterior"])
def test_every_table_of_the_json_has_its_redraw_value(draws: list[str], rule: str) -> None:
    whole: Any = document(compared(draws, rule))
    shown = dict(tables(whole))
    assert "/guessing/support_without" in shown
    assert "/benchmarks/small" in shown
    low = {path: table for path, table in shown.items() if table["SRR"] < NEAR and "redraw" not in path}
    assert low  # or the world would not test anything
    for path, table in low.items():
        # values and redraw values of the macro mean are objects side by side
        same = whole["macro"]["redraw"] if path.endswith("/macro/value") else table["redraw"]
        assert same["SRR"] == pytest.approx(table["SRR"], abs=0.2), path
    curve = whole["curves"]["SRR"]
    assert curve["redraw"].keys() == curve["value"].keys()


def test_the_table_without_guess_support_shows_what_the_same_model_shows(tmp_path: Path) -> None:
    """One model shows an SRR of .75 (Beta(6, 12), n = 64) or .07 (rate .30, n = 16), and so do its redraw values."""
    for shape, n, known in (("beta", 64, 0.75), ("flat", 16, 0.07)):
        rng, observed, expected = np.random.default_rng(1), [], []
        for study in range(8):
            rate_P = rng.beta(6, 12, 120) if shape == "beta" else np.full(120, 0.30)
            files = [str(counts(tmp_path / f"{shape}{study}{side}.csv", rng, rate_P, n)) for side in "ab"]
            aligned = tally(load(*files), None, 0)
            without = guessing(aligned.tally, None, aligned, Question(replicates=2)).without
            assert without is not None
            assert without.redraw is not None
            observed.append(without.value["SRR"])
            expected.append(without.redraw.value["SRR"])
        assert np.mean(expected) == pytest.approx(known, abs=0.04)
        assert np.mean(observed) == pytest.approx(np.mean(expected), abs=0.04)


def test_every_row_of_terminal_and_markdown_has_both_rates(draws: list[str]) -> None:
    steps = compared(draws)
    text = offleash("compare", *draws, "--replicates", "200").out
    without = steps[-1].guessing.without
    assert without is not None
    assert without.redraw is not None
    assert without.value["SRR"] < NEAR
    both = f"{without.value['SRR']:.3f}", f"{without.redraw.value['SRR']:.3f}"
    row = next(line for line in text.splitlines() if "without guess-support" in line)
    assert row.split()[-2:] == list(both)
    page = markdown(steps)
    row = next(line for line in page.splitlines() if line.startswith("| without guess-support"))
    assert re.findall(r"\d\.\d{3}", row) == list(both)


@pytest.mark.parametrize("rule", ["above"])
def test_other_tables_have_both_rates(draws: list[str], rule: str) -> None:
    steps = compared(draws, rule)
    change = steps[-1].change
    assert change.redraw is not None
    assert change.value["SRR"] < NEAR
    same = f"{change.redraw.value['SRR']:.3f}"
    # the table of classes below the leaderboard has no rate
    lines = markdown(steps).partition("| run | P |")[0].splitlines()
    rows = [line for line in lines if line.startswith(("| `three`", "| observed"))]
    assert len(rows) == 2
    assert all(same in line for line in rows)
    tile = rates(steps[-1])[0]
    assert (tile.name, tile.chance) == ("SRR", f"{same} expected for an unchanged model")
    table = leaderboard_table(subject(steps))
    assert table is not None
    assert table.rows[-1][list(table.head).index("SRR, unchanged model")] == same
    assert f"SRR {change.redraw.value['SRR']:.2f}" in latex(steps).splitlines()[-1]


def test_one_verifier_for_both_runs_explains_no_gains_without_losses() -> None:
    """False positives of one verifier fall on both runs alike; the rate of one run alone is then not given."""
    plain = compare_inputs(["examples/counts/base.csv", "examples/counts/rl.csv"], question=Question(replicates=50))[0][
        0
    ]
    unknown: Any = comparison_json(plain, {})["sensitivity"]
    assert unknown["verifier_is_shared"] is None
    assert unknown["false_positive_rate_that_explains"]["E"] > 0
    runs = {side: replace(getattr(plain, side), verifier="math@1") for side in ("before", "after")}
    shared: Any = comparison_json(replace(plain, **runs), {})["sensitivity"]
    assert shared["verifier_is_shared"] is True
    assert shared["false_positive_rate_that_explains"]["E"] is None
    assert shared["reasons"]["E"]
    assert shared["even_split_p"] == plain.evidence.mcnemar_p


def test_the_net_ratio_is_never_called_what_is_kept(tmp_path: Path) -> None:
    """Half of the problems go to rate 0 and the others rise: the ratio is near 1, and no text says so much is kept."""
    rng = np.random.default_rng(2)
    rate_P = rng.beta(1, 30, 200)
    after_P = np.where(np.arange(200) % 2, 0.0, 1 - (1 - rate_P) ** 64)
    files = [
        str(counts(tmp_path / f"{name}.csv", rng, rates_P, 64)) for name, rates_P in (("a", rate_P), ("b", after_P))
    ]
    text = offleash("compare", *files, "--at", "8", "--replicates", "200").out
    row = next(line for line in text.splitlines() if line.strip().startswith("net ratio"))
    assert float(row.split()[2]) > 0.9
    assert "a net measure, so rises can hide losses" in " ".join(text.split())
    assert "retest" not in text


def test_net_gains_stay_within_the_problems() -> None:
    gained = retest(tally_of_counts(16, [[0, 16]] * 6), 8, 500).gain_interval
    assert gained.high <= 6
    assert retest(tally_of_counts(16, [[8, 0]] * 6), 8, 500).gain_interval.low >= -1.5
