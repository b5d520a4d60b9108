"""offleash study: two models in, a comparison out; resumable, and the same as its parts."""

from pathlib import Path

import pytest

from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import RATES, problems_file, script
from tests.samplers.huggingface.tiny import tiny_model


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
    assert [run["samples"] for run in whole.json["drawn"]] == [run["new"] for run in whole.json["drawn"]]
    again = offleash(*words, "-k", "300", "--until", until, "-o", tmp_path / "study", "--json")
    assert [run["new"] for run in again.json["drawn"]] == [0, 0]
    assert again.json["support"] == parts["support"]


def test_the_cost_is_said_first_and_a_dry_run_does_nothing(tmp_path: Path, words: list[str]) -> None:
    dry = offleash(*words, "-k", "100", "--until", "5", "-o", tmp_path / "study", "--dry-run", "--json")
    assert dry.json == {"problems": 7, "k": 100, "until": 5, "least": 70, "most": 1400, "tokens": 4096}
    assert "70 samples if all are correct, 1,400 if none are" in dry.err
    assert not (tmp_path / "study").exists()


def test_a_model_compared_with_itself_is_drawn_with_two_seeds(tmp_path: Path, words: list[str]) -> None:
    words[3] = words[2]
    result = offleash(*words, "-k", "200", "-o", tmp_path / "study", "--json")
    assert result.code == 0, result.err
    first, second = (run["seed"] for run in result.json["drawn"])
    assert first == 0
    assert second > 2**32, "a hash: the seeds next to it are those of other studies"
    following = offleash(*words, "-k", "200", "--seed", "1", "-o", tmp_path / "next", "--json")
    assert not {first, second} & {run["seed"] for run in following.json["drawn"]}
    same = offleash("draw", words[1], words[2], "-k", "200", "-o", tmp_path / "copy")
    assert same.code == 0, same.err
    assert offleash("verify", tmp_path / "copy", "--jobs", "1").code == 0
    refused(offleash("compare", tmp_path / "study" / "base", tmp_path / "copy"), "the same draw", "--seed 1")


def test_missing_samples_are_told_and_nothing_is_compared(tmp_path: Path, words: list[str]) -> None:
    result = offleash(*words, "-k", "2000", "-o", tmp_path / "study", "--set", "fail=0.2", "--json")
    assert result.code == 1
    assert "support" not in result.json
    assert result.json["drawn"][0]["missing"] > 0
    assert "Run the same command again" in result.err


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_what_can_be_checked_is_checked_before_anything_is_drawn(
    tmp_path: Path, words: list[str], dry: list[str]
) -> None:
    more = ["-k", "100", "-o", str(tmp_path / "study"), *dry]
    empty = tmp_path / "empty"
    empty.mkdir()
    for model, said in (
        (f"scripted:{tmp_path / 'none.json'}", "none.json"),
        (f"hf:{empty}", "has no model"),
        (f"hf:{tmp_path / 'nowhere'}", "not a folder"),
        (f"vllm:{empty}", "has no model"),
        (f"vllm:org/name+{empty}", "has no adapter_config.json"),
        (f"hf:org/name+{tmp_path / 'nowhere'}", "is not a folder"),
    ):
        refused(offleash(*words[:3], model, *words[4:], *more), said)
    refused(offleash(*words, *more, "--set", "daley=1"), "Did you mean 'delay'")
    refused(offleash(*words, *more, "--temperature", "0"), "temperature 0")
    problems = tmp_path / "problems.jsonl"
    whole = problems.read_text()
    problems.write_text(whole.replace(', "verifier": "string"', "", 1))
    refused(offleash(*words, *more), "1 of the 7 problems of this study do not name a verifier")
    problems.write_text(whole.replace('"gold": "3", "verifier": "string"', '"gold": "\\\\frac{", "verifier": "math"'))
    refused(offleash(*words, *more), "'p3'", "cannot be judged")
    assert not (tmp_path / "study").exists()
    problems.write_text(whole)
    refused(offleash(*words, "-k", "100", "-o", problems, *dry), "is a file")


def test_a_folder_that_does_not_fit_is_refused_before_the_other_is_drawn(tmp_path: Path, words: list[str]) -> None:
    drawn = offleash("draw", words[1], words[2], "-k", "5", "-o", tmp_path / "study" / "rl")
    assert drawn.code == 0, drawn.err
    refused(offleash(*words, "-k", "5", "-o", tmp_path / "study"), "rl.json", "different settings")
    assert not (tmp_path / "study" / "base").exists()


def test_the_next_step_of_a_draw_is_no_step_of_a_study(tmp_path: Path, words: list[str]) -> None:
    result = offleash(*words, "-k", "20", "-o", tmp_path / "study")
    assert result.code == 0, result.err
    assert "140 samples of 7 problems" in result.err
    assert "next:" not in result.err


def test_problems_that_cannot_be_drawn_are_left_out_of_the_comparison(tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    rows = [("short", "a b", "a"), ("other", "c", "b c"), ("long", "a " * 70, "a")]
    lines = [f'{{"problem": "{name}", "question": "{asked}", "gold": "{gold}"}}' for name, asked, gold in rows]
    problems.write_text("\n".join(lines))
    models = [f"hf:{tiny_model(tmp_path / str(seed), seed=seed)}" for seed in (0, 1)]
    words = ["study", str(problems), *models, "-k", "20", "--max-tokens", "4", "--jobs", "1", "--verifier", "string"]
    for more in ([], ["--until", "3"]):
        result = offleash(*words, *more, "-o", tmp_path / f"study{len(more)}", "--json")
        assert result.code == 1, result.err
        assert sum(result.json["support"][cell] for cell in "PESO") == pytest.approx(2)
        assert "the model's context is 64" in result.err
        assert "lower --max-tokens or use another model" in result.err


def test_a_study_of_real_models_runs_from_end_to_end(tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    rows = [
        f'{{"problem": "{name}", "question": "{name}", "gold": "{gold}", "verifier": "string"}}' for name, gold in GOLD
    ]
    problems.write_text("\n".join(rows))
    models = [f"hf:{tiny_model(tmp_path / str(seed), seed=seed)}" for seed in (0, 1)]
    result = offleash(
        "study", problems, *models, "-k", "200", "--until", "3", "--max-tokens", "4", "--jobs", "1",
        "-o", tmp_path / "study", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    change = result.json["support"]
    assert sum(change[cell] for cell in "PESO") == pytest.approx(len(GOLD))
    assert result.json["drawn"][0]["forwarded"] < result.json["drawn"][0]["tokens"]
    assert offleash("fsck", tmp_path / "study" / "base", tmp_path / "study" / "rl").code == 0


GOLD = (("a b", "a"), ("c", "b c"), ("d d a", "nothing like it"), ("b", "c"))
