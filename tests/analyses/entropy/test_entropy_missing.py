"""Entropies that are missing, chosen, not finite or not fair: what is said, and what serves in their place."""

import json
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.analyses.entropy.entropy import ACCURACY, ANSWER, EQUAL_N, LENGTH, TOKEN, UNREAD, entropies
from offleash.analyses.entropy.entropy import entropies_of_inputs as of
from offleash.data.run import Budget, Run
from offleash.data.tables import as_problems
from offleash.loading.load import LoadOptions
from offleash.logs.format import Options
from tests.analyses.entropy.test_entropy import FEW, mean, placed, run, scores


def test_scores_of_the_own_model_serve_where_the_draw_kept_none() -> None:
    told = {f"p{p}": ["7", "8", "9"] for p in range(6)}
    part = {p: {0: 1.0, 1: 2.0} for p in told}
    bare = run("base", told)
    own = replace(bare, scores={"other": scores({p: {0: 9.0} for p in told}), "me": scores(part)}, own="me")
    found = entropies([own], FEW)
    assert mean(found, TOKEN) == [1.5]
    assert (found.tokens[0].source, found.tokens[0].scored_by, found.tokens[0].samples) == ("score", "me", 12)
    picked = replace(own, scores={"me": scores({p: {1: 2.0} for p in told})})
    refused = entropies([picked], FEW).tokens[0]
    assert refused.entropy_P is None
    assert "selected samples" in refused.reason


def test_samples_scored_as_correct_beside_the_first_ones_do_not_count() -> None:
    told = {f"p{p}": ["7", "8", "9"] for p in range(6)}
    counts = placed([(p, "samples", 0, 1, 0.0) for p in told])
    mixed = {p: {0: 1.0, 2: 5.0} for p in told} | {"p0": {0: 1.0, 1: 9.0, 2: 5.0}}
    own = replace(run("base", told), scores={"me": scores(mixed)}, own="me", positions={"me": counts})
    found = entropies([own], FEW)
    assert found.measures[TOKEN].value_PR[:, 0].tolist() == [1.0] * 6
    assert found.tokens[0].samples == 6
    wrong = replace(own, positions={"me": placed([(p, "samples", 0, 2, 0.0) for p in told])})
    assert "selected samples" in entropies([wrong], FEW).tokens[0].reason


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_entropy_that_is_no_finite_number_is_left_out_and_counted(bad: float) -> None:
    told = {f"p{p}": ["7", "8"] for p in range(3)}
    levels: dict[str, list[float | None]] = {p: [1.0, 3.0] for p in told}
    found = entropies([run("base", told, levels | {"p0": [bad, 3.0]})], FEW)
    assert found.measures[TOKEN].value_PR[:, 0].tolist() == [3.0, 2.0, 2.0]
    assert (found.tokens[0].samples, found.tokens[0].not_finite) == (5, 1)
    none = entropies([run("base", told, {p: [bad, bad] for p in told})], FEW).tokens[0]
    assert "none of its 6 token entropies is finite" in none.reason


def test_a_log_without_answers_is_told_how_to_name_their_column(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    rows = [{"problem": f"p{i % 2}", "answer": str(i % 2), "said": str(i), "correct": i % 3 == 0} for i in range(8)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    why = of([str(file)], question=FEW).measures[ANSWER].reasons["log"]
    assert "--map answer=COLUMN" in why
    named = of([str(file)], LoadOptions(Options(columns={"answer": "said"})), FEW)
    assert mean(named, ANSWER) == pytest.approx([log(4)])


@pytest.mark.parametrize(
    ("facts", "command"),
    [
        ({"model": "hf:Qwen/Qwen2.5-1.5B"}, "offleash score /some/run --model hf:Qwen/Qwen2.5-1.5B --first 32"),
        ({"model": "vllm:./my rl"}, "offleash score /some/run --model 'hf:./my rl' --first 32"),
        ({"model": "endpoint:gpt"}, "offleash score /some/run --model hf:MODEL --first 32"),
        ({}, "offleash score /some/run --model hf:MODEL --first 32"),
        ({"format": "trl"}, "offleash import /some/run -o RUN --texts, then offleash score RUN --model hf:MODEL"),
    ],
)
def test_a_run_without_token_entropies_is_told_the_command_that_gives_them(facts: dict[str, str], command: str) -> None:
    bare = run("base", {"p": ["7", "8"]}, facts=facts)
    found = entropies([bare], FEW, {"base": "/some/run"})
    assert command in found.measures[TOKEN].reasons["base"]
    assert command in found.positions.reasons["base"]
    assert found.measures[TOKEN].average.problems == 0


def test_a_run_that_stopped_early_tells_its_accuracy_and_refuses_the_rest() -> None:
    told = {f"p{p}": ["8", "7", "7"] for p in range(6)}
    stopped = run("base", told, {p: [1.0] * 3 for p in told}, budget=Budget(8, 2))
    found = entropies([stopped], FEW)
    assert mean(found, ACCURACY) == pytest.approx([0.5])  # (m-1)/(N-1), without bias
    for name in (LENGTH, TOKEN, ANSWER, EQUAL_N, UNREAD):
        assert np.isnan(found.measures[name].average.value_R).all()
        assert "--until" in found.measures[name].reasons["base"]
    assert found.distinct is None
    assert "--until" in found.positions.reasons["base"]


def test_counts_alone_have_accuracy_and_say_what_is_missing() -> None:
    problems = as_problems(pl.DataFrame({"problem": ["a", "b"]}))
    counts = Run("base", problems, None, counts=pl.DataFrame({"problem": ["a", "b"], "n": [8, 8], "c": [2, 4]}))
    found = entropies([counts], FEW)
    assert mean(found, ACCURACY) == [0.375]
    assert "has no samples" in found.measures[TOKEN].reasons["base"]
    assert "has no answers" in found.measures[ANSWER].reasons["base"]
