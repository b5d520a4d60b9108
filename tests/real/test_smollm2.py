"""A real small language model from problems to a comparison, as a user types it: `make test-real`."""

import json
import random
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import open_run
from tests.cli.command import offleash
from tests.real.models import smollm2

pytestmark = pytest.mark.real
K = 16
COLD, HOT = "0.2", "1.2"


@pytest.fixture(scope="module")
def model() -> str:
    return f"hf:{smollm2()}"


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sums of small numbers, which the model knows, and of large ones, which it guesses."""
    file = tmp_path_factory.mktemp("problems") / "sums.jsonl"
    rng = random.Random(4)
    pairs = [(rng.randrange(size), rng.randrange(size)) for size in (6, 6, 20, 20, 100, 1000)]
    rows = [
        {"problem": f"{a}+{b}", "question": f"What is {a} + {b}? Give the number alone.", "gold": str(a + b)}
        for a, b in pairs
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def drawn(problems: str | Path, model: str, into: Path, *options: str, k: int = K) -> Path:
    limits = ("--max-tokens", "24", "--set", "dtype=float32", "--json")
    result = offleash("draw", problems, model, "-k", str(k), "-o", into, *limits, *options)
    assert result.code == 0, result.err
    document = result.json
    assert document["samples"] == k * document["problems"]
    assert document["failed_requests"] == document["missing"] == 0
    print(f"\n{into.name}: {document['tokens']} tokens in {document['seconds']} s")
    return into


def texts(run: Path) -> pl.DataFrame:
    return pl.read_parquet(run / "samples" / "*.parquet").sort("problem", "index")


def variety(run: Path) -> int:
    """Different texts, summed over the problems."""
    return texts(run).select("problem", "text").unique().height


def surprise(run: Path) -> float:
    """Nats a token under the model's own distribution."""
    found = texts(run)
    return -float(found["logprob_raw"].sum()) / float(found["tokens"].sum())


def test_sums_drawn_at_two_temperatures_are_verified_and_compared(model: str, sums: Path, tmp_path: Path) -> None:
    cold = drawn(sums, model, tmp_path / "cold", "--temperature", COLD)
    hot = drawn(sums, model, tmp_path / "hot", "--temperature", HOT)
    for run in (cold, hot):
        found = texts(run)
        assert found.group_by("problem").len()["len"].to_list() == [K] * 6
        assert found["tokens"].max() == 24
        assert set(found["finish"]) <= {"stop", "length"}
        assert (found["logprob_raw"] < 0).all()
        assert not found["text"].str.contains("<|im_", literal=True).any()
    assert variety(hot) > 1.5 * variety(cold)  # heat spreads the samples
    assert surprise(hot) > surprise(cold)

    result = offleash("verify", cold, hot, "--verifier", "math", "--json")
    assert result.code == 0, result.err
    verdicts = open_run(cold).verdicts
    assert verdicts is not None
    assert (verdicts.collect()["verdict"] == "correct").sum() > 0  # it can add small numbers
    pair = ("compare", f"cold={cold}", f"hot={hot}", "--allow", "decoding")  # the temperature is what differs
    compared = offleash(*pair, "--json")
    assert compared.code == 0, compared.err
    print(offleash(*pair).out)


def test_a_reasoning_gym_task_stops_at_the_successes_asked_for(model: str, tmp_path: Path) -> None:
    pytest.importorskip("reasoning_gym")
    run = tmp_path / "gym"
    options = ("--size", "4", "--until", "2", "--temperature", "0.8", "--max-tokens", "24", "--set", "dtype=float32")
    result = offleash("draw", "reasoning_gym:basic_arithmetic", model, "-k", str(K), "-o", run, *options, "--json")
    assert result.code == 0, result.err
    assert 4 * 2 <= result.json["samples"] <= 4 * K
    assert result.json["settled"] == 4
    verified = offleash("verify", run, "--json")
    assert verified.code == 0, verified.err


def test_a_draw_goes_on_where_it_was_and_gives_the_same_samples_again(model: str, sums: Path, tmp_path: Path) -> None:
    once = drawn(sums, model, tmp_path / "once", "--size", "2")
    twice = drawn(sums, model, tmp_path / "twice", "--size", "2", k=5)
    drawn(sums, model, twice, "--size", "2")
    columns = ["problem", "index", "seed"]
    assert texts(once).select(columns).equals(texts(twice).select(columns))
    same = (texts(once)["text"] == texts(twice)["text"]).mean()
    assert same == pytest.approx(1, abs=0.1)  # the shape of a batch may change a token
