"""offleash draw and offleash fsck: from problems and a model to a run that the other commands take."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from offleash.api.draw import draw
from offleash.errors import OffleashError
from offleash.options import Decoding
from offleash.samplers.sampler import sampling_params
from offleash.signatures import describe, parse_value
from tests.analyses.certificates.certified_world import certificate
from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import RATES, problems_file, script


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    script(tmp_path / "base.json", RATES)
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    return ["draw", str(tmp_path / "problems.jsonl"), f"scripted:{tmp_path / 'base.json'}"]


def test_from_problems_to_a_comparison(tmp_path: Path, words: list[str]) -> None:
    for name, more in (("base", []), ("rl", ["--temperature", "0.5"])):
        run = offleash(*words, "-k", "200", "--until", "3", "-o", tmp_path / name, "--jobs", "1", *more)
        assert run.code == 0, run.err
        assert "Drawing 7 problems from scripted:" in run.err
        assert "at most 1,400 samples" in run.err
        assert "problems settled" in run.out
    pair = ("compare", tmp_path / "base", tmp_path / "rl", "--replicates", "200", "--json")
    refused(offleash(*pair), "temperature 1 vs 0.5", "--allow decoding")
    compared = offleash(*pair, "--allow", "decoding")
    assert compared.code == 0, compared.err
    verified = offleash("verify", tmp_path / "base", "--jobs", "1", "--json")
    assert verified.json["runs"][0]["judged"] == 0


def test_the_document_says_what_was_drawn(tmp_path: Path, words: list[str]) -> None:
    words.append("--no-verify")
    run = offleash(*words, "-k", "50", "-o", tmp_path / "run", "--max-tokens", "1", "--json")
    assert run.code == 0, run.err
    first = run.json
    assert (first["samples"], first["new"], first["problems"], first["settled"]) == (350, 350, 7, 7)
    assert first["reached"] is None
    assert first["verifier"] is None
    assert first["folder"] == str(tmp_path / "run")
    assert first["truncated"] > 0  # "no idea" is two tokens
    assert first["tokens"] == first["forwarded"] == 350
    assert first["peak_memory_mb"] > 10
    again = offleash(*words, "-k", "50", "-o", tmp_path / "run", "--max-tokens", "1")
    assert "nothing to do" in again.out
    assert "offleash verify" in again.out


def test_missing_samples_make_the_exit_code_1(tmp_path: Path, words: list[str]) -> None:
    run = offleash(*words, "-k", "2000", "-o", tmp_path / "run", "--set", "fail=0.2")
    assert run.code == 1
    assert "samples are missing" in run.out
    assert "Run the same command again" in run.out
    checked = offleash("fsck", tmp_path / "run", "--json")
    assert checked.code == 1
    assert checked.json["runs"][0]["findings"]
    assert offleash(*words, "-k", "2000", "-o", tmp_path / "run").code == 0
    checked = offleash("fsck", tmp_path / "run")
    assert checked.code == 0
    assert "14,000 samples" in checked.out
    assert "good" in checked.out


def test_what_cannot_be_drawn_is_refused_without_a_traceback(tmp_path: Path, words: list[str]) -> None:
    run = ("-o", tmp_path / "run")
    refused(offleash(*words, "-k", "lots", *run), "'paper'", "-k lots")
    refused(offleash(*words, "-k", "0", *run), "Found -k 0.")
    refused(offleash(*words, "-k", "8", "--until", "-1", *run), "--until -1")
    refused(offleash(*words, "-k", "8", "--temperature", "0", *run), "temperature 0")
    refused(
        offleash(*words, "-k", "8", "--temperature", "-1", *run),
        "--temperature takes a number from 0. Found --temperature -1",
    )
    refused(offleash(*words, "-k", "8", "--decoding", "papers", *run), "did you mean 'paper'?")
    refused(offleash(*words, "-k", "8", "--set", "delay", *run), "--set takes NAME=VALUE", "Found --set delay.")
    refused(offleash(*words, "-k", "8", "--set", "daley=1", *run), "Did you mean 'delay'")
    refused(offleash(*words, "-k", "8", "--verifier", "maths", "--until", "2", *run), "Did you mean 'math'")
    refused(offleash(*words[:2], "script:x", "-k", "8", *run), "Did you mean 'scripted:'")
    refused(offleash(*words[:2], f"scripted:{tmp_path / 'no.json'}", "-k", "8", *run), "cannot be read")
    refused(offleash("fsck", tmp_path / "none"), "not a run folder")
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_run_is_refused_before_its_model_is_loaded(tmp_path: Path, words: list[str]) -> None:
    assert offleash(*words, "-k", "8", "-o", tmp_path / "run").code == 0
    other = f"scripted:{tmp_path / 'not there.json'}"
    refused(offleash(*words[:2], other, "-k", "8", "-o", tmp_path / "run"), "not there.json", "-o")
    problems = tmp_path / "problems.jsonl"
    problems.write_text(problems.read_text().replace("Which number is 3", "What number is 3"))
    refused(offleash(*words, "-k", "8", "-o", tmp_path / "run"), "'p3'", "Which number is 3", "What number is 3")


def test_a_model_and_a_decoding_are_made_of_the_words_of_the_command_line() -> None:
    assert sampling_params(Decoding("paper")).document() == {
        **sampling_params(Decoding()).document(),
        "temperature": 0.6,
        "top_p": 0.95,
        "max_tokens": 32768,
    }
    assert sampling_params(Decoding("paper", temperature=1.0, stop=["a"], top_k=5, min_p=0.1)).document() == {
        "temperature": 1.0, "top_p": 0.95, "top_k": 5, "min_p": 0.1, "max_tokens": 32768, "stop": ["a"]
    }  # fmt: skip
    settings = describe(draw).options["settings"]
    assert parse_value(settings, ["dtype=float32", "x=a=b"]) == {"dtype": "float32", "x": "a=b"}
    with pytest.raises(OffleashError, match="given twice"):
        parse_value(settings, ["a=1", "a=2"])


def test_samples_that_are_cut_are_warned_of(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "base.json").write_text('{"problems": {"*": {"one two three": 0.5, "four": 0.5}}}')
    cut = offleash(*words, "-k", "40", "-o", tmp_path / "cut", "--max-tokens", "1")
    assert "of 280 samples were truncated at --max-tokens. Raise it" in cut.out
    whole = offleash(*words, "-k", "40", "-o", tmp_path / "whole", "--max-tokens", "3")
    assert "--max-tokens" not in whole.out
    problems_file(tmp_path / "problems.jsonl", 1)
    result = offleash(*words, "-k", "1", "-o", tmp_path / "one")
    assert "1 sample of 1 problem\n" in result.out
    assert "Drawing 1 problem from" in result.err


def test_a_folder_that_is_no_run_is_named_for_what_it_is(tmp_path: Path, words: list[str]) -> None:
    refused(
        offleash(*words, "-k", "5", "-o", tmp_path / "problems.jsonl"),
        "problems.jsonl is a file, but a run is a folder",
    )
    folder = certificate(tmp_path / "certificate", {"p0": [((1,), "correct", 0.5)]}, {"p0": 0.1})
    refused(offleash(*words, "-k", "5", "-o", folder), "is a certificate", "Choose another folder with -o")
    refused(offleash("fsck", folder), "is a certificate")
    assert (folder / "completions").is_dir()


def test_a_shard_that_was_cut_is_named_with_the_step_that_mends_it(tmp_path: Path, words: list[str]) -> None:
    run = tmp_path / "run"
    assert offleash(*words, "-k", "50", "-o", run).code == 0
    shard = run / "samples" / "000000.parquet"
    content = shard.read_bytes()
    for kept in (content[: len(content) // 2], content[:200] + bytes(300) + content[500:]):
        shard.write_bytes(kept)
        for command in (["verify", str(run), "--jobs", "1"], [*words, "-k", "60", "-o", str(run)]):
            refused(offleash(*command), f"rm {shard}", "the same draw")
    shard.unlink()
    assert offleash(*words, "-k", "50", "-o", run).code == 0
    assert offleash("verify", run, "--jobs", "1").code == 0


def test_a_draw_that_is_told_to_end_writes_what_it_has(tmp_path: Path, words: list[str]) -> None:
    code = "from offleash.cli.main import main; main()"
    more = ["-k", "100000", "--set", "delay=0.02", "--set", "appetite=64", "-o", str(tmp_path / "run")]
    process = subprocess.Popen([sys.executable, "-c", code, *words, *more], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "Drawing" not in (line := process.stderr.readline()):  # on a busy machine progress comes first
        assert line
    time.sleep(3.0)  # a sample takes 0.02 s, on a busy machine more; all of them would take many minutes
    process.send_signal(signal.SIGTERM)
    said = process.stderr.read()
    assert process.wait() == 143
    process.stderr.close()
    assert "stopped by SIGTERM. Nothing was lost" in said
    assert "Traceback" not in said
    assert list((tmp_path / "run" / "samples").glob("*.parquet"))


def test_run_json_says_who_answered_and_how(tmp_path: Path, words: list[str]) -> None:
    assert offleash(*words, "-k", "8", "--seed", "3", "-o", tmp_path / "run").code == 0
    origin = json.loads((tmp_path / "run" / "run.json").read_text())["draw"]
    assert origin["model"] == words[2]
    assert origin["seed"] == 3
    assert origin["chunks"] == {"first": 256, "growth": 2.0, "largest": 256}
    assert origin["about"]["sampler"] == "scripted"
    assert origin["thinking"] is False
