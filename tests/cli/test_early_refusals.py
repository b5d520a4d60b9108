"""Refusals come before work: nothing is read, fetched, loaded or compared for a command that cannot succeed."""

from importlib import import_module
from pathlib import Path

import pytest

from offleash.comparing import runs
from offleash.drawing import draw as drawing
from offleash.samplers.huggingface import loading
from offleash.training import trainer
from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import problems_file, script
from tests.samplers.huggingface.tiny import tiny_model


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Problems; and whatever is slow fails the test."""
    problems_file(tmp_path / "problems.jsonl", 2)
    script(tmp_path / "base.json", (0.5, 0.5))
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "text": "b"}')
    monkeypatch.chdir(tmp_path)
    import_module("offleash.lab.registry")  # while nothing is replaced: it keeps what it imports

    def slow(*_: object, **__: object) -> None:
        pytest.fail("the command did work that was to be refused")

    for name in (
        "socket.getaddrinfo",
        "offleash.loading.problem_set.load_problems",
    ):
        monkeypatch.setattr(name, slow)
    monkeypatch.setattr(runs, "load", slow)
    monkeypatch.setattr(loading, "import_module", slow)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("draw", "problems.jsonl", "hf:base", "-k", "4", "-o", "run"),
        ("draw", "problems.jsonl", "vllm:base", "-k", "4", "-o", "run"),
        ("study", "problems.jsonl", "scripted:base.json", "hf:base", "-k", "4", "-o", "run"),
        ("sweep", "problems.jsonl", "hf:base", "-k", "4", "-o", "run"),
        ("certify", "problems.jsonl", "hf:base", "--epsilon", "0.1", "-o", "run"),
        ("score", "rows.jsonl", "--model", "hf:base"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_model_that_is_neither_a_folder_nor_org_name_is_refused_with_the_command_that_makes_it(
    world: Path, words: tuple[str, ...]
) -> None:
    refused(offleash(*words), "'base' is neither a folder here nor a name on the hub", "offleash lab model countdown")
    (world / "bases").mkdir()
    refused(offleash(*words), "Did you mean hf:bases?")
    assert not (world / "run").exists()


def test_a_training_that_is_not_finished_is_named(world: Path) -> None:
    (world / "runs/grpo").mkdir(parents=True)
    (world / "runs/grpo/recipe.yaml").write_text("model: hf:base")
    words = ("draw", "problems.jsonl", "hf:runs/grpo/model", "-k", "4", "-o", "run")
    refused(offleash(*words), "not a folder", "offleash train runs/grpo/recipe.yaml -o runs/grpo")


def test_the_figure_of_checkpoints_is_refused_for_two_runs(world: Path) -> None:
    words = ("figure", "checkpoints", "a.csv", "b.csv", "-o", "x.svg")
    refused(offleash(*words), "several runs against the first; found 2", "two or more checkpoints")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("method=mixed_policy", ("needs traces",)),
        ("traces=none.jsonl", ("no trace file none.jsonl", "offleash lab traces")),
        ("model=base", ("'base' is neither a folder here", "offleash lab model countdown -o base")),
        ("model=vllm:x", ("Only transformers models can be trained",)),
        ("optimizer.rate=1e39", ("optimizer.rate must be a learning rate",)),
        ("keep=[5,200]", ("keep lists step 5", "has only 2 steps")),
        ("keep=frist", ("keep must be all, last N, or a list of steps",)),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_before_problems_are_read(
    world: Path, monkeypatch: pytest.MonkeyPatch, change: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(trainer, "load_problems", lambda *_, **__: pytest.fail("problems were read"))
    (world / "tiny").mkdir()
    (world / "tiny/config.json").write_text("{}")
    (world / "tiny/model.safetensors").write_text("")
    (world / "recipe.yaml").write_text("model: hf:tiny\nproblems: countdown:train\nsteps: 2")
    refused(offleash("train", "recipe.yaml", change, "-o", "out"), *words)


def test_what_cannot_be_judged_is_refused_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(tmp_path / "tiny")
    problems = problems_file(tmp_path / "problems.jsonl", 2)
    problems.write_text(problems.read_text().replace('"1", "verifier": "string"', '"\\\\frac{", "verifier": "math"'))
    monkeypatch.setattr(drawing, "open_sampler", lambda _: pytest.fail("the model was loaded"))
    words = ("draw", problems, f"hf:{model}", "-k", "4", "--until", "2", "-o", tmp_path / "run")
    refused(offleash(*words, "--jobs", "1"), "cannot be judged")


def test_an_existing_folder_is_hf_and_a_name_is_no_part_of_a_model(tmp_path: Path) -> None:
    model, problems = tiny_model(tmp_path / "tiny"), problems_file(tmp_path / "problems.jsonl", 2)
    for name, typed in {"a": f"hf:{model}", "b": str(model), "c": f"mine={model}"}.items():
        words = ("draw", problems, typed, "-k", "4", "--max-tokens", "2", "--no-verify", "-o", tmp_path / name)
        done = offleash(*words, "--json")
        assert done.code == 0, done.err
        assert done.json["model"] == f"hf:{model}"


def test_a_draw_judges_by_default_and_a_missing_judge_postpones_only_judging(tmp_path: Path) -> None:
    base, problems = script(tmp_path / "base.json", (0.5, 0.0)), problems_file(tmp_path / "problems.jsonl", 2)
    words = ("draw", problems, f"scripted:{base}", "-k", "40", "--jobs", "1", "--json")
    judged = offleash(*words, "-o", tmp_path / "judged").json
    assert (judged["verifier"], judged["reached"], judged["unjudged"]) == ("string@1", 1, None)
    assert sum(judged["verdicts"].values()) == 80
    left = offleash(*words, "--no-verify", "-o", tmp_path / "left").json
    assert (left["verifier"], left["verdicts"], left["unjudged"]) == (None, None, None)
    problems.write_text(problems.read_text().replace('"verifier": "string"', '"verifier": "model_judge"'))
    later = offleash(*words, "-o", tmp_path / "later")
    assert (later.code, later.json["samples"]) == (0, 80)
    assert "--judge" in later.json["unjudged"]
    assert offleash("verify", tmp_path / "later", "--verifier", "string", "--jobs", "1").code == 0
