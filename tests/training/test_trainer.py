"""The trainer: begun by a recipe, remembering what it could not solve, set back when it stalls, refused in words."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from offleash.errors import OffleashError
from offleash.problems.countdown import generate
from offleash.progress import silent
from offleash.samplers.sampler import SamplingParams
from offleash.training.checkpoints import newest
from offleash.training.metrics import read_metrics
from offleash.training.recipe import Optimizer, ProblemSource, Recipe, Sampling, Validation, read_recipe
from offleash.training.traces import write_traces
from offleash.training.trainer import open_trainer
from tests.training.classroom import BASE, traces_file

RECIPE = Recipe(
    model=str(BASE),
    problems=ProblemSource("countdown:train", size=8),
    sampling=Sampling(problems=4, group=4, max_tokens=18),
    optimizer=Optimizer(rate=1e-3),
    tensorboard=False,
)
PRORL = replace(
    RECIPE,
    method="prorl",
    options={"reset_after": 2, "kl": 0.1},
    validation=Validation(ProblemSource("countdown:dev", size=4), 1, 4),
)


def test_a_new_student_stands_at_its_first_step_with_its_recipe_and_a_checkpoint(tmp_path: Path) -> None:
    with open_trainer(RECIPE, tmp_path, silent) as trainer:
        assert (trainer.step, trainer.reference, trainer.validation) == (0, None, None)
        assert [problem.name for problem in trainer.collector.problems] == generate("train", 8, 0)["problem"].to_list()
    result = newest(tmp_path)
    assert result is not None
    assert result.step == 0
    assert read_recipe(tmp_path / "recipe.yaml").sampling == RECIPE.sampling


def test_the_rate_rises_over_the_warm_up_then_stays(tmp_path: Path) -> None:
    recipe = replace(RECIPE, optimizer=Optimizer(rate=0.8, warmup=4))
    with open_trainer(recipe, tmp_path, silent) as trainer:
        rates = []
        for step in range(6):
            trainer.set_learning_rate(step)
            rates += [group["lr"] for group in trainer.optimizer.param_groups]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8])


def test_validation_is_a_share_and_the_same_for_the_same_step(tmp_path: Path) -> None:
    with open_trainer(PRORL, tmp_path, silent) as trainer:
        assert trainer.collector.decoding == SamplingParams(temperature=1.2, max_tokens=18)
        first, again, other = (trainer.validate(step) for step in (3, 3, 4))
        assert first == again
        assert 0 <= first <= 1
        assert (first * 16).is_integer()
        assert (other * 16).is_integer()


def test_reference_and_optimizer_start_anew_when_validation_stalls(tmp_path: Path) -> None:
    with open_trainer(PRORL, tmp_path, silent) as trainer:
        first, reference = trainer.optimizer, trainer.reference
        assert reference is not None
        with torch.no_grad():
            for weights in trainer.policy.loaded.model.parameters():
                weights.mul_(1.01)
        assert [trainer.note_validation(item) for item in (0.1, 0.1, 0.2, 0.15)] == [0] * 4
        assert trainer.optimizer is first
        assert trainer.reference is reference
        assert trainer.note_validation(0.2) == 1  # the second in a row that is not better
        assert trainer.optimizer is not first
        assert trainer.reference is not None
        pairs = zip(trainer.reference.loaded.model.parameters(), trainer.policy.loaded.model.parameters(), strict=True)
        assert all(torch.equal(a, b) and a is not b for a, b in pairs)
        assert [trainer.note_validation(item) for item in (0.05, 0.05)] == [1, 1]  # the best starts anew too
        assert trainer.note_validation(0.05) == 2


def test_a_student_goes_on_with_its_reference_and_what_it_remembers(tmp_path: Path) -> None:
    recipe = replace(PRORL, options={"reset_after": 1, "kl": 0.1})
    with open_trainer(recipe, tmp_path, silent) as trainer:
        with torch.no_grad():
            for weights in trainer.policy.loaded.model.parameters():
                weights.mul_(1.01)
        trainer.note_validation(0.5)
        trainer.note_validation(0.4)
        trainer.collector.cursor, trainer.collector.seen, trainer.step = 17, {"a": {"b": 2}}, 5
        trainer.note_validation(0.3)
        trainer.save()
        assert trainer.reference is not None
        held = [weights.clone() for weights in trainer.reference.loaded.model.parameters()]
    with open_trainer(recipe, tmp_path, silent) as again:
        assert (again.step, again.resets, again.best, again.stalled) == (5, 1, 0.3, 0)
        assert (again.collector.cursor, again.collector.seen) == (17, {"a": {"b": 2}})
        assert again.reference is not None
        assert all(torch.equal(a, b) for a, b in zip(held, again.reference.loaded.model.parameters(), strict=True))


def test_problems_that_no_sample_solved_are_remembered_with_their_traces(tmp_path: Path) -> None:
    path = traces_file(tmp_path / "t.jsonl", generate("train", 8, 0))
    recipe = replace(RECIPE, method="interleaved_sft", traces=str(path))
    with open_trainer(recipe, tmp_path / "run", silent) as trainer:
        rollouts = trainer.collector.step(trainer.policy, 0)
        trainer.remember_failed(rollouts)
        unsolved = {training.problem.name for training in rollouts.groups if not training.group.reward_G.any()}
        assert set(trainer.failed) == unsolved
        assert unsolved
        (pairs,) = trainer.failed_traces(0)
        by_prompt = {tuple(problem.prompt): problem for problem in trainer.failed.values()}
        assert len(pairs) == min(4, len(unsolved))
        assert all(text in by_prompt[tuple(prompt)].traces for prompt, text in pairs)
        assert next(trainer.failed_traces(0)) == pairs
        trainer.save()
        kept = list(trainer.failed)
    with open_trainer(recipe, tmp_path / "run", silent) as again:
        assert list(again.failed) == kept


def refused(recipe: Recipe, folder: Path) -> str:
    with pytest.raises(OffleashError) as raised, open_trainer(recipe, folder, silent):
        pass
    assert not folder.exists()
    return str(raised.value)


@pytest.mark.parametrize("method", ["mixed_policy", "interleaved_sft"])
def test_a_method_that_needs_traces_is_refused_without_them(tmp_path: Path, method: str) -> None:
    said = refused(replace(RECIPE, method=method), tmp_path / "run")
    assert f"The method {method} needs traces" in said
    assert "traces=FILE" in said
    none = str(tmp_path / "none.jsonl")
    assert "There is no trace file" in refused(replace(RECIPE, method=method, traces=none), tmp_path / "run")


def test_traces_that_are_wrong_or_of_other_problems_are_refused(tmp_path: Path) -> None:
    recipe = replace(RECIPE, method="mixed_policy", traces=str(tmp_path / "t.jsonl"))
    name = generate("train", 8, 0)["problem"][0]
    write_traces(tmp_path / "t.jsonl", {name: ["1 + 1 = 3"]})
    said = refused(recipe, tmp_path / "run")
    assert "1 of the 1 traces" in said
    assert f"'1 + 1 = 3' for {name}" in said
    write_traces(tmp_path / "t.jsonl", {"countdown-elsewhere": ["1 + 1 = 2"]})
    assert "No trace in" in refused(recipe, tmp_path / "run")


def far_trace(many: int) -> tuple[str, str]:
    """A problem among so many and a correct answer to it that goes over 99, for which the base has no word."""
    problems = generate("train", many, 0)
    for name in problems["problem"].to_list():
        *numbers, target = map(int, name.split("-")[1:])
        for a, b, c, d in (
            (numbers[i], numbers[j], *(numbers[k] for k in range(4) if k not in (i, j)))
            for i in range(4)
            for j in range(i)
        ):
            made = a * b
            if made < 100:
                continue
            for first in (made - c, made + c):
                sign = "-" if first < made else "+"
                for last, mark in ((first - d, "-"), (first + d, "+"), (first // d, "/")):
                    if last == target and (mark != "/" or first % d == 0):
                        return name, f"{a} * {b} = {made} , {made} {sign} {c} = {first} , {first} {mark} {d} = {last}"
    raise AssertionError("no such problem")


@pytest.mark.parametrize("many", [150, 400])
def test_traces_with_words_that_the_model_does_not_have_are_refused(tmp_path: Path, many: int) -> None:
    name, text = far_trace(150)
    write_traces(tmp_path / "t.jsonl", {name: [text]})
    problems = ProblemSource("countdown:train", size=many)
    recipe = replace(RECIPE, method="mixed_policy", traces=str(tmp_path / "t.jsonl"), problems=problems)
    assert f"does not round-trip: {text!r}" in refused(recipe, tmp_path / "run")


def test_a_folder_of_another_training_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with open_trainer(RECIPE, tmp_path, silent):
        pass
    before = sorted(path.name for path in tmp_path.rglob("*"))
    other = replace(RECIPE, sampling=replace(RECIPE.sampling, group=8), steps=7)
    told = r"sampling.group: stored 4, requested 8\nChoose another folder with -o"
    with pytest.raises(OffleashError, match=told), open_trainer(other, tmp_path, silent):
        pass
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    with open_trainer(replace(RECIPE, steps=7, checkpoint_every=1), tmp_path, silent) as trainer:
        assert trainer.step == 0


def test_no_metrics_are_written_before_the_first_step(tmp_path: Path) -> None:
    with open_trainer(RECIPE, tmp_path, silent):
        pass
    with pytest.raises(OffleashError, match="cannot be read"):
        read_metrics(tmp_path)
