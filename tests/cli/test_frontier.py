"""The command line from problems and models to the recommended point, and what it refuses."""

from pathlib import Path

import pytest

from tests.analyses.frontier.drawn import MODELS, write_world
from tests.cli.command import offleash, refused
from tests.test_docs import described, keys_of

FEW = ("-k", "16", "--jobs", "1", "--no-cache")
WORDS = ("frontier", "problems.jsonl", *(f"scripted:{name}.json" for name in MODELS), *FEW, "-o", "runs")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_world(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_frontier_ends_with_its_headline_and_its_json_is_described(world: Path) -> None:
    plan = offleash(*WORDS, "--dry-run", "--json")
    assert plan.code == 0, plan.err
    assert plan.json["samples_at_most"] == 12 * 16 * (2 + 1 + 1 + 2) + 12 * 16 * 4
    assert "Cost: at most 1,920 samples" in plan.err
    assert not (world / "runs").exists()
    done = offleash(*WORDS, "--json", "--floor", "0.9", "--figure", "frontier.svg")
    assert done.code == 0, done.err
    actual = done.json
    known = described("frontier.md") + "".join(f"`{label}`" for label in ("base", "rl", "step"))
    assert sorted({key for key in keys_of([actual, plan.json]) if f"`{key}`" not in known}) == []
    assert actual["problems"]["choosing"] == 12
    assert [point["point"] for point in actual["points"][:3]] == ["base", "step", "rl"]
    assert (world / "frontier.svg").read_text().startswith("<svg")
    page = (world / "runs" / "report.html").read_text()
    assert "data:image/svg+xml;base64," in page
    assert "<script" not in page
    text = offleash(*WORDS, "--floor", "0.9")
    assert text.code == 0, text.err
    printed = " ".join(text.out.split())
    assert printed.endswith(" ".join(actual["headline"].split()))
    assert "no new samples drawn" in printed
    assert "…" not in text.out


def test_bad_options_and_folders_are_refused_in_a_sentence(world: Path) -> None:
    refused(offleash(*WORDS, "--floor", "0"), "--floor")
    refused(offleash(*WORDS, "--floor", "1.5"), "--floor", "1.5")
    refused(offleash(*WORDS, "--weights", "0.5,1.2"), "--weights", "1.2")
    refused(offleash(*WORDS, "--temperature", "0"), "At temperature 0, all 32 samples")
    refused(offleash("frontier", "problems.jsonl", "scripted:base.json", *FEW, "-o", "runs"), "RL")
    refused(offleash(*WORDS[:2], "scripted:base.json", "hf:./nowhere", *FEW, "-o", "runs"), "nowhere")
    refused(offleash(*WORDS[:-1], "problems.jsonl"), "problems.jsonl is a file")
    refused(offleash(*WORDS[:4], "rl=scripted:step.json", *FEW, "-o", "runs"), "Two points are called 'rl'")
    refused(offleash(*WORDS, "--figure", "frontier.gif"), "frontier.gif")
    assert not (world / "runs").exists()
