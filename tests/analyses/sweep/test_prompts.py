"""Several prompts: a gained problem that the base reaches when it is asked differently is no new ability."""

import json
from pathlib import Path

import pytest

from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import problems_file, script
from tests.test_docs import described, keys_of

FEW = ("-k", "32", "--jobs", "1", "--no-cache")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six problems. RL reaches p0 to p3; the base p3 alone, but p0 and p1 too where the prompt says `boxed`.

    Every problem is reached for certain or not at all: p0 is answered with rate 1, p1 with rate 0.5 (in 32 samples),
    and p2 is what RL gained whatever the prompt.
    """
    problems_file(tmp_path / "problems.jsonl", 6)
    script(tmp_path / "rl.json", (1.0, 1.0, 1.0, 1.0, 0.0, 0.0))
    asked = {f"p{i}": {f"\\boxed{{{i}}}": rate, "no idea": 1 - rate} for i, rate in enumerate((1.0, 0.5))}
    script(tmp_path / "base.json", (0.0, 0.0, 0.0, 1.0, 0.0, 0.0), prompts={"boxed": asked})
    (tmp_path / "boxed.txt").write_text("{question} Answer in \\boxed{}.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_gained_problems_that_the_base_reaches_under_another_prompt_are_named(world: Path) -> None:
    words = ("sweep", "problems.jsonl", "base=scripted:base.json", "rl=scripted:rl.json", *FEW)
    done = offleash(*words, "--prompts", "own,boxed.txt", "-o", "runs", "--json")
    assert done.code == 0, done.err
    own, boxed = done.json["gained"]
    assert (own["prompt"], own["gained"], own["reached_elsewhere"], own["significant"]) == ("own", 3, 2, 2)
    elsewhere = {problem["id"]: problem["elsewhere"][0]["c_before"] for problem in own["problems"]}
    assert (elsewhere["p0"], elsewhere["p2"]) == (32, 0)
    assert 0 < elsewhere["p1"] < 32
    assert (boxed["prompt"], boxed["gained"], boxed["reached_elsewhere"]) == ("boxed", 1, 0)
    assert [entry["points"][0]["temperature"] for entry in done.json["prompts"]] == [1, 1]
    assert (
        "Within 32 samples, rl gained 3 problems under the prompt own; base reaches 2 of them under another prompt, 2 "
        "at a significantly higher rate"
    ) in done.json["finding"]
    known = described("decoding.md") + described("json.md")
    assert {key for key in keys_of(done.json) if f"`{key}`" not in known} <= {"base", "rl"}
    assert json.loads((world / "runs/boxed/base/t1-p1/run.json").read_text())["draw"]["prompt"].startswith("{question}")
    again = offleash(*words, "--prompts", "own,boxed.txt", "-o", "runs")
    assert again.code == 0
    assert "gained, but reached under another prompt" in again.out
    assert again.out.count("no new samples drawn") == 2


def test_one_model_is_drawn_under_several_prompts(world: Path) -> None:
    words = ("sweep", "problems.jsonl", "scripted:base.json", *FEW, "--prompts", "own,boxed.txt", "-o", "runs")
    done = offleash(*words, "--json")
    assert done.code == 0, done.err
    assert done.json["gained"] == []
    assert "base reaches 16.7% under own, 50.0% under boxed" in done.json["finding"]


def test_prompts_that_cannot_be_swept_are_refused_before_anything_is_drawn(world: Path) -> None:
    words = ("sweep", "problems.jsonl", "scripted:base.json", *FEW, "-o", "runs")
    (world / "other").mkdir()
    (world / "other/boxed.txt").write_text("{question}")
    refused(offleash(*words, "--prompts", "own"), "two or more prompts")
    refused(offleash(*words, "--prompts", "boxed.txt,other/boxed.txt"), "Two prompts are called 'boxed'")
    refused(offleash(*words, "--prompts", "own,none.txt"), "no prompt template none.txt")
    refused(offleash(*words, "--prompts", "own,boxed.txt", "--prompt", "boxed.txt"), "Leave one out")
    refused(offleash(*words, "--prompts", "own,boxed.txt", "--figure", "x.svg"), "Leave one out")
    assert not (world / "runs").exists()
