"""The trainer: it learns, goes on where it was stopped as if it had not been, and stops with the next step in words."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import offleash
from offleash.errors import OffleashError
from offleash.lab.countdown import tokenizer
from offleash.loading.problem_set import load_problems
from offleash.problems.countdown import generate
from offleash.training.checkpoints import newest
from offleash.training.loop import Training, train
from offleash.training.methods.registry import METHODS
from offleash.training.metrics import read_metrics
from offleash.training.policy import open_policy
from offleash.training.recipe import Optimizer, ProblemSource, Recipe, Sampling, Validation, write_recipe
from offleash.training.update import supervise
from tests.samplers.huggingface.tiny import tiny_model
from tests.training.classroom import BASE, traces_file

SMALL = Recipe(
    model=str(BASE),
    problems=ProblemSource("countdown:train", size=12),
    steps=2,
    sampling=Sampling(problems=6, group=8, max_tokens=18),
    optimizer=Optimizer(rate=1e-3),
    checkpoint_every=2,
    tensorboard=False,
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    return str(traces_file(path, generate("train", 12, 0)))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: Path, other: Path) -> bool:
    a, b = weights(first), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def steps_of(folder: Path) -> list[float | None]:
    return [line["step"] for line in read_metrics(folder)]


def told_alike(first: Path, other: Path) -> bool:
    """Whether two trainings measured the same, their time aside."""
    lines = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(path)] for path in (first, other)
    ]
    return lines[0] == lines[1]


def test_the_reward_rises(tmp_path: Path) -> None:
    recipe = replace(SMALL, problems=ProblemSource("countdown:train", size=6), steps=25, checkpoint_every=100)
    recipe = replace(recipe, sampling=replace(SMALL.sampling, group=24))
    told: list[str] = []
    trained = train(recipe, tmp_path, told.append)
    rewards = [line["reward"] or 0.0 for line in read_metrics(tmp_path)]
    assert sum(rewards[-5:]) > 2 * sum(rewards[:5])
    assert trained == Training(tmp_path, tmp_path / "model", 25, 0, trained.seconds, trained.metrics, trained.note)
    assert trained.metrics["reward"] == rewards[-1]
    assert sum(line.startswith("grpo: step ") for line in told) == 25
    assert "step 25 of 25, reward 0." in told[-1]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_runs_two_steps_and_moves_the_weights(tmp_path: Path, name: str, traces: str) -> None:
    options: dict[str, float | int | bool] = {"base_samples": 8} if name == "base_anchor" else {}
    if name == "interleaved_sft":
        options = {"sft_every": 1}
    needs = name in ("mixed_policy", "interleaved_sft")
    validation = Validation(ProblemSource("countdown:dev", size=3), 1, 2) if name == "prorl" else Validation()
    recipe = replace(SMALL, method=name, options=options, traces=traces if needs else None, validation=validation)
    train(recipe, tmp_path)
    lines = read_metrics(tmp_path)
    assert [line["step"] for line in lines] == [0, 1]
    assert all(line["loss"] is not None and line["gradient"] is not None for line in lines)
    assert not same(tmp_path / "model", BASE)
    assert all(torch.isfinite(weight).all() for weight in weights(tmp_path / "model").values())
    if name == "interleaved_sft":
        assert lines[0]["sft/samples"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("prorl", {"reset_after": 1}),
        pytest.param("grpo", {}, marks=pytest.mark.slow),
        pytest.param("outcome_novelty", {}, marks=pytest.mark.slow),
        pytest.param("interleaved_sft", {"sft_every": 2}, marks=pytest.mark.slow),
    ],
)
def test_stopped_and_run_again_it_ends_with_the_weights_it_would_have_had(
    tmp_path: Path, method: str, options: dict[str, float | int | bool], traces: str
) -> None:
    recipe = replace(SMALL, method=method, options=options, steps=4, traces=traces, refill=2)
    recipe = replace(
        recipe,
        sampling=Sampling(problems=4, group=6, max_tokens=18),
        optimizer=Optimizer(rate=1e-3, warmup=3, decay=0.01),
        validation=Validation(ProblemSource("countdown:dev", size=2), 1, 1),
    )
    train(recipe, tmp_path / "at once")
    train(replace(recipe, steps=2), tmp_path / "in two")
    again = train(recipe, tmp_path / "in two")
    assert again.resumed == 2
    assert steps_of(tmp_path / "in two") == list(range(4))
    assert told_alike(tmp_path / "at once", tmp_path / "in two")
    assert same(tmp_path / "at once" / "model", tmp_path / "in two" / "model")
    if method == "prorl":
        assert (read_metrics(tmp_path / "in two")[1]["validation/resets"] or 0) > 0


def test_a_training_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = train(SMALL, tmp_path)
    before = weights(first.model)
    again = train(SMALL, tmp_path)
    assert (again.resumed, again.steps) == (2, 2)
    assert all(torch.equal(before[name], item) for name, item in weights(again.model).items())
    assert steps_of(tmp_path) == [0, 1]


def test_metrics_that_could_not_be_written_are_not_lost_for_good(tmp_path: Path) -> None:
    """A step whose checkpoint stands is not done again, so its line must stand before it."""
    folder, recipe = tmp_path / "run", replace(SMALL, checkpoint_every=1)
    folder.mkdir()
    (folder / "metrics.jsonl").symlink_to(tmp_path / "nowhere" / "metrics.jsonl")
    with pytest.raises(OffleashError, match="could not be written"):
        train(recipe, folder)
    (folder / "metrics.jsonl").unlink()
    train(recipe, folder)
    assert steps_of(folder) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_killed_at_any_moment_it_ends_with_the_weights_it_would_have_had(tmp_path: Path, turn: int) -> None:
    recipe = replace(SMALL, steps=30, checkpoint_every=2, sampling=replace(SMALL.sampling, problems=12, group=32))
    write_recipe(recipe, tmp_path / "r.yaml")
    code = f"""
from pathlib import Path
from offleash.training.loop import train
from offleash.training.recipe import read_recipe
train(read_recipe(Path({str(tmp_path / "r.yaml")!r})), Path({str(tmp_path / "killed")!r}))
"""
    rng = random.Random(f"kill {turn}")
    for _ in range(3):
        running = subprocess.Popen([sys.executable, "-c", code])
        start, deadline = newest(tmp_path / "killed"), time.monotonic() + 120
        while newest(tmp_path / "killed") == start and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.random() * 1.5)
        running.send_signal(signal.SIGKILL)
        running.wait()
    train(recipe, tmp_path / "killed")
    train(recipe, tmp_path / "whole")
    assert steps_of(tmp_path / "killed") == list(range(30))
    assert told_alike(tmp_path / "whole", tmp_path / "killed")
    assert same(tmp_path / "whole" / "model", tmp_path / "killed" / "model")


def test_another_recipe_in_the_same_folder_is_refused_with_what_differs(tmp_path: Path) -> None:
    train(SMALL, tmp_path)
    other = replace(SMALL, seed=4, optimizer=Optimizer(rate=2e-3), steps=9)
    with pytest.raises(
        OffleashError,
        match=r"(?s)seed: stored \d+, requested 4.*optimizer.rate: stored .*, requested 0.002.*Choose another",
    ):
        train(other, tmp_path)
    with pytest.raises(OffleashError, match=r"method: stored \w+, requested rloo"):
        train(replace(SMALL, method="rloo"), tmp_path)
    assert steps_of(tmp_path) == [0, 1]


def test_where_nothing_is_correct_it_stops_with_what_was_seen(tmp_path: Path) -> None:
    recipe = replace(SMALL, steps=30, sampling=replace(SMALL.sampling, max_tokens=3))
    with pytest.raises(OffleashError) as stopped:
        train(recipe, tmp_path)
    said = str(stopped.value)
    assert "The reward was 0 for every sample of 5 steps" in said
    assert "100% were truncated at sampling.max_tokens" in said
    assert "100% were unread" in said
    assert "offleash draw" in said
    assert len(steps_of(tmp_path)) < 6


def test_where_everything_is_correct_it_stops(tmp_path: Path) -> None:
    policy = open_policy(str(tiny_model(tmp_path / "base")))
    optimizer = torch.optim.AdamW(policy.loaded.model.parameters(), lr=0.02)
    for _ in range(60):
        last = supervise(policy, optimizer, [([place], "b") for place in (0, 2, 3)], Optimizer())
    assert last.loss < 1e-3
    policy.loaded.model.save_pretrained(tmp_path / "base")
    rows = [{"id": word, "question": word, "prompt": word, "answer": "b", "verifier": "string"} for word in "acd"]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = replace(SMALL, model=str(tmp_path / "base"), problems=ProblemSource(str(tmp_path / "p.jsonl")), steps=9)
    with pytest.raises(OffleashError, match=r"Every sample of 5 steps was correct, .* Use harder problems"):
        train(replace(recipe, sampling=Sampling(problems=3, group=2, max_tokens=4)), tmp_path / "run")


def astray(folder: Path, every: int) -> Path:
    """Train at a rate that makes the policy give no numbers; the checkpoint that is named."""
    recipe = replace(SMALL, steps=20, optimizer=Optimizer(rate=1e10), checkpoint_every=every)
    with pytest.raises(OffleashError) as stopped:
        train(recipe, folder)
    named = re.search(r"NaN.* The last good checkpoint is (.*?step-\d{6})", str(stopped.value))
    assert named, stopped.value
    return Path(named[1])


def test_where_it_goes_astray_it_names_a_checkpoint_from_which_a_lower_rate_goes_on(tmp_path: Path) -> None:
    named = astray(tmp_path / "astray", 20)
    assert all(torch.isfinite(weight).all() for weight in weights(named).values())
    train(replace(SMALL, model=f"hf:{named}"), tmp_path / "again")
    assert steps_of(tmp_path / "again") == [0, 1]


def test_the_checkpoint_that_is_named_gives_numbers_also_where_every_step_is_saved(tmp_path: Path) -> None:
    named = astray(tmp_path, 1)
    model, words = AutoModelForCausalLM.from_pretrained(named), AutoTokenizer.from_pretrained(named)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([words.encode("3 4 5 6 = 24 :")])).logits
    assert torch.isfinite(logits).all()


def test_a_rate_beyond_all_numbers_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(OffleashError):
        train(replace(SMALL, optimizer=Optimizer(rate=1e39)), tmp_path)


def test_what_it_leaves_is_a_model_for_every_tool(tmp_path: Path) -> None:
    trained = train(SMALL, tmp_path)
    drawn = offleash.draw(
        load_problems("countdown:dev", size=3).frame,
        f"hf:{trained.model}",
        k=4,
        out=tmp_path / "drawn",
        decoding=offleash.Decoding(max_tokens=18),
    )
    assert drawn is not None
    model, words = AutoModelForCausalLM.from_pretrained(trained.model), AutoTokenizer.from_pretrained(trained.model)
    ids = torch.tensor([words.encode("3 4 5 6 = 24 :")])
    made = model.generate(ids, max_new_tokens=40, do_sample=False)
    assert made[0, -1] == words.eos_token_id
    assert made.shape[1] < ids.shape[1] + 40
    assert not (trained.model / "training.pt").exists()
    assert (tmp_path / "recipe.yaml").is_file()


def test_expert_traces_are_learned_from_where_no_sample_is_correct(tmp_path: Path, traces: str) -> None:
    """The case that they are for: the policy itself reaches nothing."""
    model = tiny_model(tmp_path / "base", words=tuple(tokenizer().get_vocab()))
    recipe = replace(SMALL, model=str(model), method="mixed_policy", traces=traces, steps=8)
    trained = train(recipe, tmp_path / "run")
    assert steps_of(tmp_path / "run") == list(range(8))
    assert trained.metrics["samples/trained"] > 0
