"""The verb `score` as it is typed."""

import json
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import create_run
from tests.analyses.certificates.certified_world import certificate
from tests.cli.command import offleash, refused
from tests.samplers.huggingface.tiny import tiny_model
from tests.verifying.samples import run_of_texts

SUMS = {"id", "tokens", "logprob_raw", "entropy_raw", "logprob_sampled", "entropy_sampled", "perplexity"}
GOLDS = {"p": "a", "q": "b"}
TEXTS = {"p": ["a", "b c", "a a a"], "q": ["d", "", "b b"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"hf:{tiny_model(tmp_path_factory.mktemp('model'))}"


def rows(path: Path, *some: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    return path


def test_a_file_of_rows_gives_one_line_of_sums_a_row_in_the_same_order(tmp_path: Path, model: str) -> None:
    file = rows(
        tmp_path / "traces.jsonl",
        {"id": "x", "prompt": "a b", "text": "c d a"},
        {"prompt": "a b", "text": "c d a", "finish": "stop"},
        {"id": 7, "prompt": "a", "text": None},
        {"id": [1], "prompt": "a", "text": "b " * 99},
        {"id": "\ud800", "prompt": "a", "text": "b \ud800"},
    )
    result = offleash("score", file, "--model", model, "--json")
    assert result.code == 0, result.err
    actual = [json.loads(line) for line in result.out.splitlines()]
    assert [row["id"] for row in actual] == ["x", 2, 7, [1], "\ud800"]
    assert [row["tokens"] for row in actual] == [3, 4, 0, 99, 2]
    assert all(set(row) >= SUMS for row in actual)
    assert actual[1]["logprob_raw"] < actual[0]["logprob_raw"]
    assert actual[0]["logprob_sampled"] == actual[0]["logprob_raw"]
    assert (actual[2]["logprob_raw"], actual[2]["perplexity"]) == (0, None)
    assert actual[3]["logprob_raw"] < 0
    assert [row.get("windows") for row in actual] == [None, None, None, 3, None]


def test_columns_of_other_names_are_mapped(tmp_path: Path, model: str) -> None:
    file = rows(tmp_path / "traces.jsonl", {"key": 5, "question": "a b", "response": "c d a"})
    mapped = ["--map", "id=key", "--map", "prompt=question", "--map", "text=response"]
    assert json.loads(offleash("score", file, "--model", model, "--json", *mapped).out)["id"] == 5
    refused(offleash("score", file, "--model", model), "row 1", "'prompt'", "key, question", "--map prompt=COLUMN")
    refused(offleash("score", file, "--model", model, "--map", "txt=response"), "'txt'", "Did you mean 'text'?")
    refused(offleash("score", file, "--model", model, "--map", "text"), "NAME=COLUMN")


def test_a_token_that_the_decoding_leaves_out_is_told_in_json_that_has_no_infinity(tmp_path: Path, model: str) -> None:
    file = rows(tmp_path / "traces.jsonl", *({"prompt": "a b", "text": text} for text in "abcd"))
    result = offleash("score", file, "--model", model, "--json", "--temperature", "0")
    actual = [json.loads(line) for line in result.out.splitlines()]
    assert sum(row.get("left_out", False) for row in actual) >= 3
    assert all((row["logprob_sampled"] is None) == row.get("left_out", False) for row in actual)
    assert "cannot draw" in offleash("score", file, "--model", model, "--temperature", "0").out


def test_a_file_of_rows_is_summed_up_in_a_table(tmp_path: Path, model: str) -> None:
    file = rows(
        tmp_path / "traces.jsonl",
        {"prompt": "a", "text": "b"},
        {"prompt": "a", "text": "b " * 99},
        {"prompt": "a " * 99, "text": "b"},
    )
    result = offleash("score", file, "--model", model)
    assert result.code == 0, result.err
    told = (
        "1 without scores",
        "prompt is longer than the model's context of 64 tokens",
        "1 are longer",
        "scored in windows",
    )
    for word in ("2 of 3 rows scored", "perplexity", "entropy/token", *told):
        assert word in result.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty", '"prompt"']),
        ('{"prompt": "a", "text": "b"}\n{not json\n', ["row 2", "not JSON"]),
        ('{"prompt": "a"}\n', ["row 1", "no 'text'"]),
        ('\n{"prompt": 5, "text": "b"}\n', ["row 2", "'prompt' should be a string", "5"]),
        ('{"prompt": "a", "text": ["b"]}\n', ["row 1", "'text' should be a string"]),
        ("[1]\n", ["row 1", "list"]),
        ('{"id": NaN, "prompt": "a", "text": "b"}\n', ["row 1", "NaN"]),
    ],
)
def test_bad_rows_are_named_before_a_model_is_loaded(tmp_path: Path, content: str, words: list[str]) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text(content, encoding="utf-8")
    result = offleash("score", file, "--model", "hf:/no/such/model", "--json")
    refused(result, *words)
    assert result.out == ""


def test_what_a_run_lacks_is_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, verifier="string")
    score = ("score", run, "--model", "hf:/no/such/model")
    refused(offleash(*score, "--only", "correct"), "no verdicts", "offleash verify")
    assert offleash("verify", run, "--jobs", "1", "--no-cache").code == 0
    refused(offleash(*score, "--only", "correct", "--verdicts", "sting"), "no verifier", "'sting'", "Known: string")
    refused(offleash(*score), "/no/such/model is not a folder")  # now it is the model's turn
    folder = certificate(tmp_path / "certificate", {"p0": [((1,), "correct", 0.5)]}, {"p0": 0.1})
    refused(offleash("score", run, folder, *score[2:]), "is a certificate")
    shard = run / "samples" / "000000.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    refused(offleash(*score), "000000.parquet is damaged", f"rm {shard}")


def test_a_name_under_which_scores_would_not_stand_is_refused(tmp_path: Path) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    for name in ("..", "", "a b/ü\nc", "x-"):
        result = offleash("score", run, "--model", "hf:/no/such/model", f"--name={name}")
        refused(result, f"found {name!r}", "letters A to Z, digits and _.@+-")
    file = rows(tmp_path / "traces.jsonl", {"prompt": "a", "text": "b"})
    refused(offleash("score", file, "--model", "hf:/no/such/model", "--name="), "--name")


def test_a_model_that_is_no_folder_is_told_with_one_that_is_called_almost_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    (tmp_path / "the.base").mkdir()
    no_name = "hf:the..base"  # such a name is not asked for on the hub
    refused(
        offleash("score", run, "--model", no_name),
        "'the..base' is neither a folder",
        "Did you mean hf:the.base?",
        "hub",
    )
    refused(offleash("score", run, "--model", "hf:./thebase"), "./thebase is not a folder", "Did you mean hf:the.base?")
    unlike = offleash("score", run, "--model", "hf:./other")
    refused(unlike, "./other is not a folder")
    assert "Did you mean" not in unlike.err


def test_a_run_is_scored_and_split_by_verdict(tmp_path: Path, model: str) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS, verifier="string")
    assert offleash("verify", run, "--jobs", "1", "--no-cache").code == 0
    result = offleash("score", run, "--model", model, "--json", "--name", "mine")
    assert result.code == 0, result.err
    (actual,) = result.json["runs"]
    assert actual["new"] == 6
    assert actual["scores"].endswith("scores/mine")
    assert set(actual["groups"]) == {"all", "correct", "wrong", "unread"}
    assert actual["groups"]["all"]["perplexity"] > 1
    assert actual["groups"]["unread"]["logprob_spread"] is None  # of one sample
    text = offleash("score", run, "--model", model, "--name", "mine")
    assert "0 scored now" in text.out
    assert "correct" in text.out


def test_what_cannot_be_scored_is_refused_with_the_next_step(tmp_path: Path, model: str) -> None:
    run = run_of_texts(tmp_path / "run", GOLDS, TEXTS)
    file = rows(tmp_path / "traces.jsonl", {"prompt": "a", "text": "b"})
    refused(offleash("score", tmp_path / "nowhere", "--model", model), "no run folder", "offleash import")
    refused(offleash("score", tmp_path, "--model", model), "no run.json")
    refused(offleash("score", tmp_path / "no.jsonl", "--model", model), "no file")
    refused(offleash("score", run, file, "--model", model), "one file of rows")
    refused(offleash("score", run, "--model", "vllm:org/name"), "only hf:", "hf:org/name")
    refused(offleash("score", run, "--model", "nonsense"), "hf:nonsense")
    refused(offleash("score", run, "--model", "hf:/no/such/model"), "/no/such/model")
    refused(offleash("score", run, "--model", model, "--temperature", "-1"), "temperature")
    refused(offleash("score", run, "--model", model, "--map", "text=x"), "--map")
    refused(offleash("score", file, "--model", model, "--name", "x"), "--name")
    refused(offleash("score", run, "--model", model, "--set", "dtpe=x"), "Did you mean 'dtype'?")


def test_a_run_without_texts_cannot_be_scored_and_no_model_is_loaded(tmp_path: Path) -> None:
    model = "hf:/no/such/model"
    samples = pl.DataFrame({"problem": ["a"], "index": [0], "text": ["b"]})
    with create_run(tmp_path / "run", "run", pl.DataFrame({"problem": ["a"]}), {}) as run:
        run.write_samples(samples)
    refused(offleash("score", tmp_path / "run", "--model", model), "no problem texts", "jsonl")
    with create_run(tmp_path / "bare", "bare", pl.DataFrame({"problem": ["a"], "question": ["a"]}), {}) as run:
        run.write_verdicts("v", pl.DataFrame({"problem": ["a"], "index": [0], "verdict": ["correct"]}))
    refused(offleash("score", tmp_path / "bare", "--model", model), "no sample texts")
