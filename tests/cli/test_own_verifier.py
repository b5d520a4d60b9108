"""`--verifier FILE.py:NAME`: functions with verl's, TRL's and our parameters judge runs, files of rows and problems."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import offleash, refused

REWARDS = r'''
import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """verl's: a float, or a dict with `score`."""
    boxed = re.findall(r"\\boxed\{([^{}]*)\}", solution_str)
    score = 1.0 if boxed and boxed[-1] == ground_truth else 0.0
    return {"score": score, "acc": score == 1.0, "pred": boxed[-1] if boxed else ""}


def reward(completions, answer, **kwargs):
    """TRL's, conversational."""
    contents = [completion[0]["content"] for completion in completions]
    return [1.0 if rf"\boxed{{{gold}}}" in content else 0.0 for content, gold in zip(contents, answer)]


async def reward_of_texts(prompts, completions, solution, trainer_state, log_extra, log_metric):
    """TRL's, on plain texts, asynchronous; None where it cannot judge."""
    log_extra("solution", solution)
    log_metric("share", 0.5)
    return [None if "?" in text else 0.5 * (rf"\boxed{{{gold}}}" in text) for text, gold in zip(completions, solution)]


def mine(text, gold, extracted, level):
    """Ours, with a column."""
    if extracted is None:
        return None
    return extracted == gold and level > 0
'''
ROWS = [
    {"problem": "p0", "question": "Which number is 0?", "gold": "0", "verifier": "string", "level": 1},
    {"problem": "p1", "question": "Which number is 1?", "gold": "1", "verifier": "string", "level": 2},
]
# scripts of two models: what each says, and how often
BASE = {"p0": {"\\boxed{0}": 0.5, "\\boxed{100}": 0.5}, "p1": {"\\boxed{1}": 0.5, "what? ": 0.5}}
RL = {"p0": {"\\boxed{0}": 1.0}, "p1": {"\\boxed{1}": 0.9, "\\boxed{7}": 0.1}}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rewards, problems and two scripted models, in the working directory."""
    monkeypatch.setenv("OFFLEASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text(REWARDS)
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, problems in (("base", BASE), ("rl", RL)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"problems": problems}))
    return tmp_path


def drawn(name: str = "base", k: int = 8) -> Path:
    arguments = ("problems.jsonl", f"scripted:{name}.json", "-k", str(k), "-o", f"runs/{name}", "--no-verify")
    result = offleash("draw", *arguments)
    assert result.code == 0, result.err
    return Path(f"runs/{name}")


def verdicts(*arguments: str | Path) -> dict[str, int]:
    result = offleash("verify", *arguments, "--jobs", "1", "--json")
    assert result.code == 0, result.err
    (run,) = result.json["runs"]
    counts: dict[str, int] = run["verdicts"]
    return counts


def test_functions_of_verl_trl_and_ours_agree_on_a_run(world: Path) -> None:
    run = drawn()
    ours = verdicts(run)  # by `string`
    assert ours["correct"] > 0
    assert ours["wrong"] > 0
    assert ours["unread"] == 0
    verl = verdicts(run, "--verifier", "rewards.py:compute_score")
    assert verl["correct"] == ours["correct"]
    trl = verdicts(run, "--verifier", "rewards:reward", "--completions", "messages")  # a module, not a file
    assert trl["correct"] == ours["correct"]
    by_columns = verdicts(run, "--verifier", "rewards.py:mine")
    assert (by_columns["correct"], by_columns["unread"]) == (ours["correct"], verl["wrong"] - by_columns["wrong"])
    names = sorted(path.name.partition("@")[0] for path in (run / "verdicts").iterdir())
    assert names == ["own-compute_score", "own-mine", "own-reward.messages", "string"]


def test_an_asynchronous_reward_of_texts_has_a_threshold_and_none_is_failed(world: Path) -> None:
    run = drawn()
    counts = verdicts(run, "--verifier", "rewards.py:reward_of_texts", "--threshold", "0.5")
    assert counts["correct"] > 0
    assert counts["failed"] > 0
    assert counts["unread"] == 0
    (stored,) = (run / "verdicts").iterdir()
    assert stored.name.startswith("own-reward_of_texts.threshold0.5@")
    result = offleash("verify", run, "--verifier", "rewards.py:reward_of_texts", "--threshold", "0.5", "--jobs", "1")
    assert "could not be judged and are neither correct nor wrong: the function returned None" in result.out


def test_a_run_with_a_chat_template_gives_messages_and_the_other_form_is_named(world: Path) -> None:
    run = drawn()
    message = offleash("verify", run, "--verifier", "rewards.py:reward", "--jobs", "1")
    refused(message, "first sample", "TypeError", "--completions messages")
    facts = json.loads((run / "run.json").read_text())
    facts["draw"]["template"] = "f" * 24  # of another text than the question: a template was applied
    (run / "run.json").write_text(json.dumps(facts))
    counts = verdicts(run, "--verifier", "rewards.py:reward")
    assert counts["correct"] > 0
    assert counts["failed"] == 0
    refused(
        offleash("verify", run, "--verifier", "rewards.py:reward", "--completions", "text", "--jobs", "1"),
        "--completions messages",
    )


def test_draw_stops_early_by_a_function_and_compare_judges_by_one(world: Path) -> None:
    result = offleash(
        *("draw", "problems.jsonl", "scripted:base.json", "-k", "64", "--until", "2", "-o", "runs/base"),
        *("--verifier", "rewards.py:compute_score", "--jobs", "1", "--json"),
    )
    assert result.code == 0, result.err
    assert result.json["samples"] < 2 * 64
    drawn("rl", 16)
    compared = offleash(
        *("compare", "runs/base", "runs/rl", "--verifier", "rewards.py:compute_score", "--jobs", "1", "--json")
    )
    assert compared.code == 0, compared.err
    assert [run["verifier"].partition("@")[0] for run in compared.json["verified"]] == ["own-compute_score"] * 2


def test_the_version_is_the_file_and_the_cache_is_not_used_without_one(world: Path) -> None:
    file = world / "rows.jsonl"
    file.write_text(json.dumps({"id": 1, "gold": "5", "text": "\\boxed{5}", "level": 1}) + "\n")

    def judged(*more: str) -> dict[str, Any]:
        result = offleash("verify", file, "--verifier", "rewards.py:mine", "--jobs", "1", "--json", *more)
        assert result.code == 0, result.err
        return result.json

    assert judged()["verdict"] == "correct"
    (world / "rewards.py").write_text(REWARDS.replace("level > 0", "level > 1"))
    assert judged()["verdict"] == "wrong"  # another version: the cached verdict is of the first
    (world / "rewards.py").write_text("import random\ndef mine(text):\n    return random.random()\n")
    assert judged("--threshold", "0")["verdict"] == "correct"
    scores = {judged("--threshold", "0", "--no-cache")["score"] for _ in range(2)}
    assert len(scores) == 2


def test_check_accepts_golds_in_some_form_and_rejects_corruptions(world: Path) -> None:
    result = offleash("check", "problems.jsonl", "--verifier", "rewards.py:compute_score", "--jobs", "1", "--json")
    assert result.code == 0, result.out
    assert (result.json["accepted"], result.json["faults"]) == (2, [])
    assert result.json["rejected"] == result.json["corruptions"] > 0
    (world / "yes.py").write_text("def yes(text, gold):\n    return True\n\ndef no(text, gold):\n    return False\n")
    accepting = offleash("check", "problems.jsonl", "--verifier", "yes.py:yes", "--jobs", "1")
    assert accepting.code == 1
    assert "is accepted" in accepting.out
    rejecting = offleash("check", "problems.jsonl", "--verifier", "yes.py:no", "--jobs", "1")
    assert rejecting.code == 1
    assert "correct the function" in rejecting.out


def test_bad_references_are_refused_with_the_nearest_name(world: Path) -> None:
    run = drawn()

    def refused_by(reference: str, *words: str) -> None:
        refused(offleash("verify", run, "--verifier", reference, "--jobs", "1"), *words)

    refused_by("rewards.py:compute_scores", "no function compute_scores", "closest name is compute_score")
    refused_by("reward.py:mine", "no file reward.py", "rewards.py")
    refused_by("rewards.py", "rewards.py is a file", "FUNCTION")
    refused_by("no_module_here:f", "no module no_module_here")
    (world / "rewards.py").write_text("def mine(text, leval):\n    return True\n")
    refused_by("rewards.py:mine", "'leval'", "Did you mean 'level'?")
    refused(offleash("verify", run, "--threshold", "0.5"), "--verifier FILE.py:NAME")
    refused(
        offleash("verify", run, "--verifier", "rewards.py:mine", "--completions", "text"), "'--completions text'"[1:-1]
    )


def test_a_reference_in_data_is_never_loaded(world: Path) -> None:
    """Problems come from others: only an option may name code."""
    (world / "evil.py").write_text("from pathlib import Path\nPath('loaded').touch()\ndef f(text):\n    return True\n")
    (world / "problems.jsonl").write_text(json.dumps({**ROWS[0], "verifier": "evil.py:f"}) + "\n")
    refused(
        offleash("draw", "problems.jsonl", "scripted:base.json", "-k", "2", "-o", "runs/x"), "no verifier 'evil.py:f'"
    )
    refused(offleash("check", "problems.jsonl"), "no verifier 'evil.py:f'")
    assert not (world / "loaded").exists()


def test_hostile_texts_are_text_to_a_function(world: Path) -> None:
    file = world / "rows.jsonl"
    texts = ["__import__('os').system('touch hacked')", "\x00\ud800 {0.__class__} %s", "${jndi:x}"]
    file.write_text("".join(json.dumps({"id": i, "gold": text, "text": text}) + "\n" for i, text in enumerate(texts)))
    (world / "same.py").write_text("def same(text, answer):\n    return text == answer\n")
    result = offleash("verify", file, "--verifier", "same.py:same", "--jobs", "1", "--json")
    assert result.code == 0, result.err
    assert [json.loads(line)["verdict"] for line in result.out.splitlines()] == ["correct"] * 3
    assert not (world / "hacked").exists()


@pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed: pip install 'offleash[trl]'")
def test_the_accuracy_reward_of_trl_judges_a_run(world: Path) -> None:
    run = drawn()
    ours = verdicts(run)
    counts = verdicts(run, "--verifier", "trl.rewards:accuracy_reward", "--completions", "messages")
    assert counts["correct"] == ours["correct"]
    assert counts["failed"] == 0


def test_a_function_that_judges_nothing_is_not_a_success(world: Path) -> None:
    """For scripts: `offleash verify ... && offleash compare ...` stops where every sample failed."""
    (world / "broken.py").write_text("def f(text):\n    raise KeyError(text[:0])\n")
    file = world / "rows.jsonl"
    file.write_text(json.dumps({"id": 1, "gold": "5", "text": "5"}) + "\n")
    for data in (drawn(k=2), file):
        result = offleash("verify", data, "--verifier", "broken.py:f", "--jobs", "1")
        assert result.code == 1, result.err
        assert "failed" in result.out
