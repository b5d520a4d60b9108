"""offleash train and offleash lab from the command line: journeys, and messages for what is wrong."""

import json
from pathlib import Path

import pytest

from tests.cli.command import offleash, refused

RECIPE = """
model: hf:{base}
problems: {{name: "countdown:train", size: 16}}
steps: 2
sampling: {{problems: 4, group: 8, max_tokens: 18}}
optimizer: {{rate: 1e-4}}
tensorboard: false
"""


def run(*arguments: str) -> str:
    done = offleash(*arguments)
    assert done.code == 0, done
    return done.out


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "base"
    run("lab", "model", "countdown", "-o", str(folder))
    return folder


@pytest.fixture
def recipe(tmp_path: Path, base: Path) -> Path:
    path = tmp_path / "grpo.yaml"
    path.write_text(RECIPE.format(base=base))
    return path


def test_a_training_ends_with_a_model_and_its_metrics(recipe: Path, tmp_path: Path) -> None:
    result = json.loads(run("train", str(recipe), "-o", str(tmp_path / "out"), "--json"))
    assert result["steps"] == 2
    assert (Path(result["model"]) / "model.safetensors").is_file()
    assert len((tmp_path / "out" / "metrics.jsonl").read_text().splitlines()) == 2
    more = json.loads(run("train", str(recipe), "steps=3", "-o", str(tmp_path / "out"), "--json"))
    assert (more["steps"], more["resumed"]) == (3, 2)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("metod=grpo", "Did you mean 'method'"),
        ("method=gpro", "Did you mean 'grpo'"),
        ("method.clp=0.1", "Did you mean 'clip'"),
        ("optimizer.rat=1", "Did you mean 'optimizer.rate'"),
        ("steps=0", "steps must be a whole number, 1 or more; found 0"),
        ("model=vllm:x", "Only transformers models can be trained"),
        ("method=mixed_policy", "Give a JSONL"),
        ("traces=nowhere.jsonl", "There is no trace file nowhere.jsonl"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said_with_the_nearest_name(
    recipe: Path, tmp_path: Path, override: str, message: str
) -> None:
    refused(offleash("train", recipe, override, "-o", tmp_path / "x"), message)


def test_problems_and_traces_of_the_lab_serve_a_method_that_learns_from_outside(recipe: Path, tmp_path: Path) -> None:
    asked, traces = tmp_path / "train.jsonl", tmp_path / "traces.jsonl"
    made = json.loads(
        run("lab", "problems", "countdown", "--part", "train", "--size", "12", "-o", str(asked), "--json")
    )
    assert made["problems"] == 12
    solved = json.loads(run("lab", "traces", "countdown", "--problems", str(asked), "-o", str(traces), "--json"))
    assert solved["traces"] >= 12
    words = ["method=mixed_policy", f"problems={asked}", f"traces={traces}"]
    result = json.loads(run("train", str(recipe), *words, "-o", str(tmp_path / "mixed"), "--json"))
    assert result["steps"] == 2


def test_a_base_is_pretrained_and_drawn_from(tmp_path: Path) -> None:
    run("lab", "pretrain", "countdown", "--steps", "2", "-o", str(tmp_path / "tiny"), "--json")
    out = str(tmp_path / "run")
    model = f"hf:{tmp_path / 'tiny'}"
    drawn = run("draw", "countdown:test", model, "--size", "2", "-k", "4", "--max-tokens", "18", "-o", out, "--json")
    assert json.loads(drawn)["samples"] == 8


def test_a_folder_that_is_not_empty_is_not_written_over(base: Path) -> None:
    refused(offleash("lab", "model", "countdown", "-o", base), "not empty")


def test_an_unknown_world_is_answered_with_the_nearest(tmp_path: Path) -> None:
    refused(offleash("lab", "model", "countdwon", "-o", tmp_path / "x"), "Did you mean 'countdown'")
