"""The command line from problems to certificates to their comparison, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.analyses.certificates.certified_world import BOXES, certificate, problems_file
from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import script
from tests.samplers.huggingface.tiny import tiny_model
from tests.test_docs import described, keys_of

FEW = ("--jobs", "1", "--max-tokens", "3", "--epsilon", "0.004")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, problems, and a certificate of each model."""
    folder = tmp_path_factory.mktemp("certify")
    problems = problems_file(folder / "problems.jsonl")
    for seed, name in enumerate(("base", "rl")):
        tiny_model(folder / "models" / name, words=BOXES, seed=seed)
        done = offleash("certify", problems, f"hf:{folder}/models/{name}", *FEW, "-o", folder / name)
        assert done.code == 0, done.err
        assert f"Certifying 4 problems with hf:{folder}/models/{name}" in done.err
        assert "4 of 4 problems certified at epsilon 0.004" in done.out
    return folder


def test_certificates_are_compared_by_completion_by_mass_and_per_completion(world: Path) -> None:
    shown = offleash("compare", world / "base", world / "rl", "--replicates", "200")
    assert shown.code == 0, shown.err
    for words in ("base → rl", "rule certified", "problems by completion", "problems by mass", "correct completions"):
        assert words in shown.out
    actual = offleash("compare", world / "base", world / "rl", "--replicates", "200", "--json").json
    assert (actual["schema"], actual["kind"], actual["epsilon"]) == (2, "certified", 0.004)
    assert actual["support"] == actual["by_completion"]
    for table in (actual["by_completion"], actual["by_mass"]):
        assert sum(table[cell] for cell in ("P", "E", "S", "O", "undetermined")) == 4
    lists = actual["problems"]
    assert actual["by_completion"]["P"] == sum(item["by_completion"] == "P" for item in lists)
    above = {side: sum(item[side]["correct_completions"] for item in lists) for side in ("before", "after")}
    completions = actual["completions"]
    assert completions["P"] + completions["S"] == above["before"]
    assert completions["P"] + completions["E"] == above["after"]
    low, high = actual["p_correct"]["after"]
    assert 0 < low < high < 1
    other = ("--rule", "certified", "--question", "mass", "--replicates", "200", "--json")
    by_mass = offleash("compare", world / "base", world / "rl", *other).json
    assert by_mass["support"] == actual["by_mass"]


def test_a_model_against_itself_keeps_everything(world: Path) -> None:
    actual = offleash("compare", f"a={world / 'base'}", f"b={world / 'base'}", "--replicates", "200", "--json").json
    assert (actual["completions"]["E"], actual["completions"]["S"]) == (0, 0)
    assert actual["completions"]["mass_kept"] == 1
    assert (actual["support"]["E"], actual["support"]["S"]) == (0, 0)


def test_a_finished_certificate_is_told_as_json_without_new_work(world: Path) -> None:
    words = ("certify", world / "problems.jsonl", f"hf:{world}/models/rl", *FEW, "-o", world / "rl", "--json")
    done = offleash(*words)
    assert done.code == 0, done.err
    actual = done.json
    assert (actual["problems"], actual["certified"], actual["new"]) == (4, 4, 0)
    assert "4 problems are already certified" in done.err
    for item in actual["certificates"]:
        total = sum(item[name] for name in ("correct", "wrong", "unread", "failed", "unexplored"))
        assert total == pytest.approx(1, abs=1e-6)
        assert item["p_correct"][0] == item["correct"] <= item["p_correct"][1] <= 1
    assert sorted({key for key in keys_of(actual) if f"`{key}`" not in described("certify.md")}) == []


def test_every_key_of_the_comparison_is_described(tmp_path: Path) -> None:
    written = {"a": [((1,), "correct", 0.3)], "b": [((1,), "wrong", 0.3)]}
    folders = [certificate(tmp_path / name, written, {"a": 0.7, "b": 0.7}) for name in ("x", "y", "z")]
    actual = offleash("compare", *folders, "--replicates", "200", "--json").json
    assert len(actual["comparisons"]) == 2
    known = described("certify.md") + described("json.md")
    assert sorted({key for key in keys_of(actual) if f"`{key}`" not in known}) == []


def test_what_cannot_be_certified_or_compared_is_refused(world: Path, tmp_path: Path) -> None:
    problems, rl = world / "problems.jsonl", f"hf:{world}/models/rl"
    scripted = script(tmp_path / "script.json", [0.5])
    refused(offleash("certify", problems, f"scripted:{scripted}", "-o", tmp_path / "x"), "gives only samples")
    refused(offleash("certify", problems, rl, "--epsilon", "2", "-o", tmp_path / "x"), "--epsilon 2")
    refused(offleash("certify", problems, rl, "--epsilon", "0.1", "--at", "9", "-o", tmp_path / "x"), "Leave one out")
    refused(
        offleash("certify", problems, rl, "--at", "1024", "--max-tokens", "3", "-o", world / "rl"),
        "epsilon: stored 0.004",
    )
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"id": "p0", "response": "x", "correct": True}) + "\n")
    assert offleash("import", log, "-o", tmp_path / "run").code == 0
    refused(offleash("certify", problems, rl, *FEW, "-o", tmp_path / "run"), "samples of a run", "-o")
    refused(offleash("compare", world / "base", tmp_path / "run"), "certificate", "offleash certify")
    refused(offleash("compare", world / "base", world / "rl", "--rule", "seen"), "--rule seen")
    refused(offleash("compare", world / "base", world / "rl", "--flips"), "--flips needs samples")
    refused(offleash("compare", world / "base", world / "rl", "--question", "mas"), "'mass'")
    refused(offleash("compare", log, log, "--rule", "certified"), "offleash certify")
    assert not (tmp_path / "x").exists()
