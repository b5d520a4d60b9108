"""What a training refuses or notices beside its recipe: changed data, silence, a policy that never stalls, dilution."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from offleash.errors import OffleashError
from offleash.lab.countdown import COUNTDOWN
from offleash.lab.registry import write_problems
from offleash.problems.countdown import generate
from offleash.training.loop import train
from offleash.training.method import RolloutGroup
from offleash.training.metrics import read_metrics
from offleash.training.policy import open_policy
from offleash.training.recipe import Optimizer, ProblemSource, Recipe, Sampling
from tests.training.classroom import BASE, traces_file

SMALL = Recipe(
    model=str(BASE),
    problems=ProblemSource("countdown:train", size=12),
    steps=1,
    sampling=Sampling(problems=4, group=4, max_tokens=18),
    optimizer=Optimizer(rate=1e-4),
    tensorboard=False,
)


def test_problems_that_changed_since_the_training_began_are_noticed(tmp_path: Path) -> None:
    asked = tmp_path / "problems.jsonl"
    write_problems(COUNTDOWN, "train", 8, 0, asked)
    recipe = replace(SMALL, problems=ProblemSource(str(asked)))
    train(recipe, tmp_path / "out")
    write_problems(COUNTDOWN, "train", 8, 1, asked)
    with pytest.raises(OffleashError, match="changed since the training run in"):
        train(replace(recipe, steps=2), tmp_path / "out")


def test_a_method_that_only_pushes_down_stops_too_where_nothing_is_ever_correct(tmp_path: Path) -> None:
    silent = replace(SMALL, method="nsr", steps=20, sampling=Sampling(problems=4, group=4, max_tokens=2))
    with pytest.raises(OffleashError, match="The reward was 0 for every sample of 5 steps"):
        train(silent, tmp_path)


def test_a_method_that_starts_anew_when_validation_stalls_needs_a_validation(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"Set validation\.every and"):
        train(replace(SMALL, method="prorl"), tmp_path)
    train(replace(SMALL, method="prorl", options={"reset_after": 0}), tmp_path)


def test_traces_are_not_counted_among_the_policys_own_samples(tmp_path: Path) -> None:
    traces = traces_file(tmp_path / "t.jsonl", generate("train", 12, 0))
    train(SMALL, tmp_path / "alone")
    mixed = replace(SMALL, method="mixed_policy", options={"experts": 3}, traces=str(traces))
    train(mixed, tmp_path / "mixed")
    (alone,), (joined,) = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("alone", "mixed"))
    for name in ("reward", "entropy/token", "completions/length", "groups/mixed"):
        assert joined[name] == pytest.approx(alone[name])


def test_the_group_without_traces_is_the_policys_own() -> None:
    table, flags = np.arange(6.0).reshape(3, 2), np.array([False, True, False])
    group = RolloutGroup(np.array([1.0, 1.0, 0.0]), np.array([2, 1, 2]), table, table, ("a", "b", "c"), 2, flags)
    own = group.own()
    assert own.reward_G.tolist() == [1.0, 0.0]
    assert own.answer_G == ("a", "c")
    assert own.entropy_GT.tolist() == [[0.0, 1.0], [4.0, 5.0]]


def test_samples_are_no_longer_than_the_model_can_read(tmp_path: Path) -> None:
    """The loss and the penalty on length take the room there is, not the room that was asked for."""
    long = replace(SMALL, method="dr_grpo", sampling=Sampling(problems=4, group=4, max_tokens=4000))
    train(long, tmp_path)
    (actual,) = read_metrics(tmp_path / "metrics.jsonl")
    assert actual["completions/length"] is not None
    assert actual["completions/length"] <= 64 - 7


def test_weights_are_trained_in_full_precision(tmp_path: Path) -> None:
    model = open_policy(str(BASE)).loaded.model
    half = tmp_path / "half"
    model.bfloat16().save_pretrained(half)
    open_policy(str(BASE)).loaded.tokenizer.save_pretrained(half)
    assert {str(parameter.dtype) for parameter in open_policy(str(half)).loaded.model.parameters()} == {"torch.float32"}


def test_a_notebook_trains_by_a_mapping_with_overrides(tmp_path: Path) -> None:
    recipe = {
        "model": str(BASE),
        "problems": {"name": "countdown:train", "size": 8},
        "sampling": {"problems": 2, "group": 2, "max_tokens": 18},
        "steps": 9,
    }
    assert ol.train(recipe, "steps=1", "tensorboard=false", out=tmp_path).steps == 1
