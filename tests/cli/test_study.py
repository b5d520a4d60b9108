"""offleash study: two models in, a comparison out; resumable, and the same as its parts."""

from pathlib import Path

import pytest

from tests.cli.command import offleash, refused
from tests.samplers.tiny import tiny_model
from tests.study.drawn_world import RATES, problems_file, script


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    script(tmp_path / "base.json", RATES)
    script(tmp_path / "rl.json", [min(1.0, 2 * rate) if rate > 0.01 else 0.0 for rate in RATES])
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    models = [f"scripted:{tmp_path / name}" for name in ("base.json", "rl.json")]
    return ["study", str(tmp_path / "problems.jsonl"), *models, "--jobs", "1"]


@pytest.mark.parametrize("until", ["0", "3"])
def test_a_study_is_its_parts_in_one_command(tmp_path: Path, words: list[str], until: str) -> None:
    whole = offleash(*words, "-k", "300", "--until", until, "-o", tmp_path / "study", "--json")
    assert whole.code == 0, whole.err
    assert "Study of scripted:" in whole.err
    for place, name in enumerate(("base", "rl")):
        drawn = offleash("draw", words[1], words[2 + place], "-k", "300", "--until", until, "-o", tmp_path / name)
        assert drawn.code == 0, drawn.err
    if until == "0":
        assert offleash("verify", tmp_path / "base", tmp_path / "rl", "--jobs", "1").code == 0
    parts = offleash("compare", tmp_path / "base", tmp_path / "rl", "--json").json
    assert whole.json["support"] == parts["support"]
    assert [one["samples"] for one in whole.json["drawn"]] == [one["new"] for one in whole.json["drawn"]]
    again = offleash(*words, "-k", "300", "--until", until, "-o", tmp_path / "study", "--json")
    assert [one["new"] for one in again.json["drawn"]] == [0, 0]
    assert again.json["support"] == parts["support"]


def test_the_cost_is_said_first_and_a_dry_run_does_nothing(tmp_path: Path, words: list[str]) -> None:
    dry = offleash(*words, "-k", "100", "--until", "5", "-o", tmp_path / "study", "--dry-run", "--json")
    assert dry.json == {"problems": 7, "k": 100, "until": 5, "least": 70, "most": 1400, "tokens": 4096}
    assert "70 samples if all were correct, 1,400 if none were" in dry.err
    assert not (tmp_path / "study").exists()


def test_a_model_compared_with_itself_is_drawn_with_two_seeds(tmp_path: Path, words: list[str]) -> None:
    words[3] = words[2]
    found = offleash(*words, "-k", "200", "-o", tmp_path / "study", "--json")
    assert found.code == 0, found.err
    assert [one["seed"] for one in found.json["drawn"]] == [0, 1]
    same = offleash("draw", words[1], words[2], "-k", "200", "-o", tmp_path / "copy")
    assert same.code == 0, same.err
    assert offleash("verify", tmp_path / "copy", "--jobs", "1").code == 0
    refused(offleash("compare", tmp_path / "study" / "base", tmp_path / "copy"), "the same draw", "--seed 1")


def test_missing_samples_are_told_and_nothing_is_compared(tmp_path: Path, words: list[str]) -> None:
    found = offleash(*words, "-k", "2000", "-o", tmp_path / "study", "--set", "fail=0.2", "--json")
    assert found.code == 1
    assert "support" not in found.json
    assert found.json["drawn"][0]["missing"] > 0
    assert "Run the same command again" in found.err


def test_a_study_of_real_models_runs_from_end_to_end(tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    rows = [
        f'{{"problem": "{name}", "question": "{name}", "gold": "{gold}", "verifier": "string"}}' for name, gold in GOLD
    ]
    problems.write_text("\n".join(rows))
    models = [f"hf:{tiny_model(tmp_path / str(seed), seed=seed)}" for seed in (0, 1)]
    found = offleash(
        "study", problems, *models, "-k", "200", "--until", "3", "--max-tokens", "4", "--jobs", "1",
        "-o", tmp_path / "study", "--json",
    )  # fmt: skip
    assert found.code == 0, found.err
    change = found.json["support"]
    assert sum(change[cell] for cell in "PESO") == pytest.approx(len(GOLD))
    assert found.json["drawn"][0]["forwarded"] < found.json["drawn"][0]["tokens"]
    assert offleash("fsck", tmp_path / "study" / "base", tmp_path / "study" / "rl").code == 0


GOLD = (("a b", "a"), ("c", "b c"), ("d d a", "nothing like it"), ("b", "c"))
