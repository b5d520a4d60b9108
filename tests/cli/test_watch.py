"""`offleash watch`: the document, the terminal, the page, the base, and what is refused."""

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import offleash as ol
from offleash.lab.countdown import COUNTDOWN
from offleash.training.watch.live import follow
from tests.cli.command import offleash, refused
from tests.logs.log_reading import FIXTURES
from tests.training.watch.test_windows import write_steps

KEYS = ["first", "last", "samples", "pass@1", "pass@G", "all_wrong", "all_right", "answer_entropy", "unread"]


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    write_steps(tmp_path / "rollouts", np.random.default_rng(0).random((6, 12, 4)) < 0.4)
    return tmp_path / "rollouts"


def test_the_document_has_the_keys_it_promises(rollouts: Path) -> None:
    document = offleash("watch", rollouts, "--once", "--json").json
    assert list(document) == ["schema", "trainer", "counts", "steps", "solved_before", "warnings"]
    assert document["trainer"] == "verl"
    assert document["counts"] == {"samples": 288, "problems": 12, "duplicates": 0, "missing": 0}
    assert list(document["steps"][0]) == [*KEYS, "truncated", "repeated"]
    assert [(window["first"], window["last"]) for window in document["steps"]] == [(step, step) for step in range(1, 7)]
    rows = [row for path in sorted(rollouts.glob("*.jsonl")) for row in map(json.loads, path.read_text().splitlines())]
    for window in document["steps"]:
        scores = [row["score"] for row in rows if row["step"] == window["first"]]
        assert window["pass@1"] == pytest.approx(np.mean(scores))
        groups = np.array(scores).reshape(12, 4)
        assert window["all_wrong"] == pytest.approx((groups.sum(axis=1) == 0).mean())
        assert window["pass@G"] == pytest.approx((groups.sum(axis=1) > 0).mean())
    for loss in document["solved_before"]:
        assert 0 < loss["chance"] <= 1
    assert all(set(warning) == {"code", "text"} for warning in document["warnings"])


def test_the_terminal_shows_windows_and_warnings(rollouts: Path) -> None:
    result = offleash("watch", rollouts, "--once", "--window", "3")
    assert result.code == 0
    assert "288 rollouts of 12 problems" in " ".join(result.out.split())
    assert "1-3" in result.out
    assert "4-6" in result.out


def test_trl_batches_that_were_logged_twice_are_duplicates() -> None:
    document = offleash("watch", FIXTURES / "trl" / "reused_base", "--once", "--json").json
    assert document["counts"] == {"samples": 32, "problems": 8, "duplicates": 16, "missing": 0}


def trl_rows(step: int, split: str, first: int = 0, size: int = 8) -> pl.DataFrame:
    numbers = range(first, first + size)
    return pl.DataFrame(
        {
            "step": [step] * size,
            "prompt": [f"{split} {number // 4}" for number in numbers],
            "completion": [f"text {step} {number}" for number in numbers],
            "accuracy": [float(number % 2) for number in numbers],
            "split": [split] * size,
            "advantage": [0.0] * size,
        }
    )


def test_training_samples_that_an_evaluation_overwrote_are_missing(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        trl_rows(step, "train").write_parquet(tmp_path / f"completions_{step:05}.parquet")
    mixed = pl.concat([trl_rows(4, "train").tail(4), trl_rows(4, "eval", size=4)])  # what TRL's last eight samples were
    mixed.write_parquet(tmp_path / "completions_00004.parquet")
    trl_rows(2, "eval").write_parquet(tmp_path / "completions_00002.parquet")
    document = offleash("watch", tmp_path, "--once", "--json").json
    assert document["counts"] == {"samples": 20, "problems": 2, "duplicates": 0, "missing": 12}
    texts = {warning["code"]: warning["text"] for warning in document["warnings"]}
    assert "12 training samples were overwritten" in texts["overwritten"]
    assert "12 samples from evaluations are left out" in texts["evaluations"]


def test_a_verifier_of_ours_judges_in_place_of_the_reward(tmp_path: Path) -> None:
    rows = [
        {"input": "2+3?", "output": text, "gts": "5", "score": 0.0, "step": 1}
        for text in (r"\boxed{5}", r"\boxed{6}", "I do not know")
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = offleash("watch", tmp_path, "--once", "--json", "--verifier", "math", "--jobs", "1").json
    (window,) = document["steps"]
    assert window["pass@1"] == pytest.approx(1 / 3)
    assert window["unread"] == pytest.approx(1 / 3)
    assert window["answer_entropy"] == pytest.approx(np.log(2))


def test_a_threshold_says_what_is_correct(tmp_path: Path) -> None:
    rows = [{"input": "q", "output": "a", "gts": "5", "score": score, "step": 1} for score in (0.4, 0.6)]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = offleash("watch", tmp_path, "--once", "--json", "--threshold", "0.5").json
    assert document["steps"][0]["pass@1"] == 0.5


def test_a_log_of_ones_own_needs_its_columns_and_its_step(tmp_path: Path) -> None:
    rows = [{"at": 3, "question": "q", "response": "a", "good": good} for good in (True, False)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--log-format", "generic", "--map", "verdict=good", "--once", "--json"]
    refused(offleash("watch", tmp_path, *options), "--map step=COLUMN")
    (window,) = offleash("watch", tmp_path, *options, "--map", "step=at").json["steps"]
    assert (window["first"], window["samples"], window["pass@1"]) == (3, 2, 0.5)


# The base.


def base_log(folder: Path, correct_PN: np.ndarray) -> Path:
    rows = [
        {"problem": f"problem {p}", "response": "a", "correct": bool(c)}
        for p, row in enumerate(correct_PN)
        for c in row
    ]
    (folder / "base.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "base.jsonl"


def test_a_base_adds_the_classes_of_every_window(tmp_path: Path) -> None:
    correct = np.ones((2, 4, 4), dtype=bool)
    correct[1, :2] = False  # problems 0 and 1 are lost in the second window
    write_steps(tmp_path / "rollouts", correct)
    base = np.ones((4, 8), dtype=bool)
    base[3] = False  # the base never solved problem 3
    options = ["--base", str(base_log(tmp_path, base)), "--once", "--json", "--window", "1"]
    document = offleash("watch", tmp_path / "rollouts", *options).json
    assert document["base"]["unmatched"] == 0
    cells = [[row[name] for name in "PESO"] for row in document["base"]["steps"]]
    assert cells == [[3, 1, 0, 0], [1, 1, 2, 0]]
    assert document["base"]["steps"][1]["SRR"] == pytest.approx(1 / 3)
    assert document["base"]["steps"][1]["redraw_S"] == 0  # eight of eight are solved again


def test_a_question_inside_a_chat_template_is_the_question_of_the_base(tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    write_steps(folder, np.ones((1, 3, 4), dtype=bool))
    path = folder / "1.jsonl"
    path.write_text(path.read_text().replace('"problem ', '"<|user|>\\nWhat is the value of problem '))
    base = base_log(tmp_path, np.ones((3, 8), dtype=bool))
    base.write_text(base.read_text().replace('"problem ', '"What is the value of problem '))
    document = offleash("watch", folder, "--base", base, "--once", "--json").json
    assert document["base"]["unmatched"] == 0
    assert document["base"]["steps"][0]["P"] == 3


def test_a_base_of_other_problems_is_refused(rollouts: Path, tmp_path: Path) -> None:
    base = base_log(tmp_path, np.ones((3, 8), dtype=bool))
    base.write_text(base.read_text().replace("problem ", "another "))
    refused(offleash("watch", rollouts, "--base", base, "--once"), "12 problems is in 'base'", "same questions")


# The page.


def test_the_page_reloads_runs_nothing_and_shows_texts_as_text(tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script><img src=x onerror="alert(2)">'
    folder = tmp_path / "rollouts"
    correct = np.ones((2, 2, 4), dtype=bool)
    correct[1] = False
    write_steps(folder, correct)
    for path in folder.glob("*.jsonl"):
        path.write_text(path.read_text().replace('"problem 0"', json.dumps(hostile)))
    page = tmp_path / "watch.html"
    session = ol.watch(folder, page=page, window=1)

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(session.watcher, Console(file=io.StringIO()), 7, page, sleep=stop)  # type: ignore[union-attr]
    html = page.read_text()
    assert '<meta http-equiv="refresh" content="7">' in html
    assert "script-src" not in html
    assert "default-src &#39;none&#39;" in html  # as an attribute holds it
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert offleash("watch", folder, "--once", "--page", tmp_path / "once.html").code == 0
    assert 'http-equiv="refresh"' not in (tmp_path / "once.html").read_text()


# Following.


def test_a_training_is_followed_line_by_line_until_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    folder.mkdir()
    command = [sys.executable, "-m", "offleash", "watch", str(folder), "--every", "0.1", "--window", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "No rollouts yet" in first
        write_steps(folder, np.ones((1, 3, 4), dtype=bool))
        line = process.stdout.readline()
        assert line.startswith("steps 1-1: ")
        while "12 samples so far" not in line:  # the file may have been seen before it was whole
            line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert "Stopped" in rest


def test_with_json_every_look_that_finds_more_is_a_document(rollouts: Path) -> None:
    session = ol.watch(rollouts)
    looks: list[dict[str, Any]] = []

    def stop(_: float) -> None:
        write_steps(rollouts, np.ones((1, 3, 4), dtype=bool), first=7)
        if len(looks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(session.watcher, Console(), 0.1, each=looks.append, sleep=stop)  # type: ignore[union-attr]
    assert [look["counts"]["samples"] for look in looks] == [288, 300]


# Bad input.


def test_a_folder_without_rollouts_says_what_would_be_recognised(tmp_path: Path) -> None:
    (tmp_path / "rollout_1.pt").write_bytes(b"\x80\x04")
    (tmp_path / "metrics.jsonl").write_text('{"loss": 1}\n')
    result = offleash("watch", tmp_path, "--once")
    refused(result, "no rollouts", "metrics.jsonl", "completions_00010.parquet", "log_completions=True")
    refused(result, "rollout_1.pt", "never loaded", "prime_rl: traces.jsonl")


def test_options_that_cannot_work_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    refused(offleash("watch", tmp_path / "nowhere", "--once"), "is not a folder")
    refused(offleash("watch", tmp_path, "--once", "--jobs", "2"), "--verifier NAME")
    refused(offleash("watch", tmp_path, "--once", "--filter", "x"), "--filter and --rows")
    refused(offleash("watch", tmp_path, "--once", "--page", "page.txt"), "page.txt")
    refused(offleash("watch", tmp_path, "--once", "--verifier", "maht"), "maht", "math")
    refused(offleash("watch", tmp_path, "--once", "--base", "nowhere.csv"), "nowhere.csv")


def test_token_ids_are_read_with_their_tokenizer(tmp_path: Path) -> None:
    result = offleash("watch", FIXTURES / "open_instruct", "--once", "--json")
    assert all(window["repeated"] is None for window in result.json["steps"])
    COUNTDOWN.tokenizer().save_pretrained(tmp_path / "tokenizer")
    rows = [
        {"step": 1, "sample_idx": 0, "prompt_idx": 0, "prompt_tokens": [5, 6], "response_tokens": tokens, "reward": 1.0}
        for tokens in ([7, 8], [7, 8], [9, 8])
    ]
    (tmp_path / "x_rollouts_000000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = offleash("watch", tmp_path, "--once", "--json", "--tokenizer", tmp_path / "tokenizer").json
    assert document["steps"][0]["repeated"] == pytest.approx(1 / 3)
    refused(offleash("watch", tmp_path, "--once", "--tokenizer", tmp_path / "no"), "tokenizer")


def test_looks_again_cost_what_is_new(rollouts: Path) -> None:
    """CPU time of a look after 1,500 steps is not that of the first look."""
    correct = np.random.default_rng(0).random((300, 12, 4)) < 0.4
    write_steps(rollouts, correct)
    session = ol.watch(rollouts)
    started = time.process_time()
    session.look()  # type: ignore[union-attr]
    first = time.process_time() - started
    write_steps(rollouts, correct[:1], first=301)
    started = time.process_time()
    session.look()  # type: ignore[union-attr]
    again = time.process_time() - started
    assert session.watcher.changes.samples == 48  # type: ignore[union-attr]
    assert again < first / 5
