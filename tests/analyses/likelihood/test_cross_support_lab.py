"""Cross-support of a trained lab pair against exact certificates: what is called certain is, to the last completion."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.lab.demo import QUICK, recipe_of
from offleash.lab.registry import world, write_problems
from offleash.stats.likelihood import MIN_EFFECTIVE
from offleash.training.loop import train
from tests.cli.command import offleash

K, ABOVE = 128, 1e-5
LENGTH = ("--max-tokens", "18")


@pytest.mark.slow
def test_certain_bounds_are_those_of_exact_certificates(tmp_path: Path) -> None:
    lab = world("countdown")
    plan = replace(QUICK, steps=30, problems=40)
    for part, size in (("train", plan.pool), ("test", plan.problems)):
        write_problems(lab, part, size, 0, tmp_path / "problems" / f"{part}.jsonl")
    recipe = recipe_of(lab, plan, tmp_path)
    trained = train(recipe, tmp_path / "training")
    models = {"base": recipe.model, "rl": f"hf:{trained.model}"}
    for name, model in models.items():
        run = ("-k", str(K), *LENGTH, "-o", tmp_path / name)
        assert offleash("draw", tmp_path / "problems/test.jsonl", model, *run).code == 0
        assert offleash("verify", tmp_path / name).code == 0
    told = offleash("likelihood", tmp_path / "base", tmp_path / "rl", "--first", "1", "--json").json
    rows = told["cross_support"]["problems"]
    assert len(rows) >= 4, "too few problems changed their class for this to say anything"
    for name, model in models.items():
        other = "after" if name == "base" else "before"  # who found what this model missed
        mine = [row for row in rows if row["finder"] == other]
        if mine:
            _check(tmp_path, name, model, {"before": "base", "after": "rl"}[other], mine)


def _check(folder: Path, name: str, model: str, finder: str, rows: list[dict[str, object]]) -> None:
    """Every bound is the mass of the completions seen: those above epsilon are in the certificate, each once.

    So it is at most what the certificate leaves possible; and so is the estimate, up to its error, where it has one.
    """
    asked = pl.read_ndjson(folder / "problems/test.jsonl")
    file = folder / f"{name}.jsonl"
    asked.filter(pl.col("problem").is_in([row["problem"] for row in rows])).write_ndjson(file)
    made = offleash("certify", file, model, "--epsilon", str(ABOVE), *LENGTH, "-o", folder / f"cert-{name}")
    assert made.code == 0, made.err
    completions = pl.read_parquet(folder / f"cert-{name}" / "completions" / "*.parquet")
    limits = _limits(folder / f"cert-{name}", completions)
    verdicts = pl.read_parquet(folder / finder / "verdicts" / "*" / "*.parquet").filter(pl.col("verdict") == "correct")
    samples = pl.read_parquet(folder / finder / "samples" / "*.parquet").join(verdicts, on=["problem", "index"])
    for row in rows:
        seen = samples.filter(pl.col("problem") == row["problem"])["text"].unique()
        known = completions.filter((pl.col("problem") == row["problem"]) & pl.col("text").is_in(seen.to_list()))
        exact = float(known["logprob_sampled"].exp().sum())
        hidden = (len(seen) - known["text"].n_unique()) * ABOVE  # below epsilon, so in no certificate
        bound = row["certain_bound"]
        assert isinstance(bound, float)
        assert exact * (1 - 1e-4) <= bound <= exact * (1 + 1e-4) + hidden, row
        found, most = limits[str(row["problem"])]
        assert bound <= most * (1 + 1e-4), row
        estimate, effective = row["estimate"], row["effective_samples"]
        assert isinstance(estimate, float)
        assert isinstance(effective, float)
        if effective >= MIN_EFFECTIVE:
            error = estimate / np.sqrt(effective)  # of a sum of weights, by their squares
            assert found - 4 * error <= estimate <= most + 4 * error, row


def _limits(cert: Path, completions: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """For every problem the correct mass that a certificate has found, and the most that there can be."""
    verdicts = pl.read_parquet(cert / "judged" / "*" / "*.parquet").filter(pl.col("verdict") == "correct")
    right = completions.join(verdicts, on=["problem", "index"], how="semi")
    mass = right.group_by("problem").agg(mass=pl.col("logprob_sampled").exp().sum())
    rows = pl.read_parquet(cert / "expansions" / "*.parquet").join(mass, on="problem", how="left").fill_null(0.0)
    pairs = rows.select("problem", "mass", most=pl.col("mass") + pl.col("unexplored")).iter_rows()
    return {problem: (found, most) for problem, found, most in pairs}
