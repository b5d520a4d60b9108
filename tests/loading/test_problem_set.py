"""problems: names, files, samples and seeds, and a table that is the same however it was read."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from offleash.data.tables import PROBLEMS
from offleash.errors import OffleashError
from offleash.loading.problem_set import load_problems, random_subset
from offleash.problems.problem import line


def copy_of(folder: Path, count: int, name: str = "copy.jsonl") -> Path:
    path = folder / name
    path.write_text(
        "".join(
            json.dumps({"id": f"p{n}", "problem": f"{n}+1?", "answer": f"{n + 1:03d}"}) + "\n" for n in range(count)
        )
    )
    return path


def test_a_local_copy_gets_the_benchmarks_verifier_guess_and_prompt(tmp_path: Path) -> None:
    frame = load_problems("aime24", source=copy_of(tmp_path, 3)).frame
    assert dict(frame.schema) == PROBLEMS
    assert frame["gold"].to_list() == ["1", "2", "3"]
    assert frame.select("verifier", "guess", "benchmark").unique().rows() == [("math", 0.001, "aime24")]
    assert frame["prompt"].str.ends_with("within \\boxed{}.").all()


def test_a_sample_is_reproducible_and_keeps_the_order(tmp_path: Path) -> None:
    path = copy_of(tmp_path, 100)
    ids = load_problems("aime24", source=path, size=10, seed=3).frame["problem"].to_list()
    assert ids == load_problems("aime24", source=path, size=10, seed=3).frame["problem"].to_list()
    assert ids == sorted(ids, key=lambda one: int(one[1:]))
    assert ids != load_problems("aime24", source=path, size=10, seed=4).frame["problem"].to_list()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(height=st.integers(1, 40), seed=st.integers(0, 2**64), data=st.data())
def test_a_sample_holds_different_problems(height: int, seed: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, height))
    taken = random_subset(pl.DataFrame({"problem": range(height)}), size, seed, "x")["problem"].to_list()
    assert len(set(taken)) == size
    assert taken == sorted(taken)


@pytest.mark.parametrize(
    ("size", "seed", "message"),
    [(4, 0, "3 problems, fewer than --size 4"), (0, 0, "--size 0"), (-1, 0, "--size -1"), (1, -1, "--problem-seed -1")],
)
def test_impossible_samples_are_refused(tmp_path: Path, size: int, seed: int, message: str) -> None:
    with pytest.raises(OffleashError, match=message):
        load_problems("aime24", source=copy_of(tmp_path, 3), size=size, seed=seed)


def test_simpleqa_is_the_papers_tenth_unless_a_size_is_given(tmp_path: Path) -> None:
    path = copy_of(tmp_path, 500)
    loaded = load_problems("simpleqa", source=path)
    assert loaded.frame.height == 433
    assert "433 of 500" in loaded.notes[-1].text
    assert load_problems("simpleqa", source=path, size=500).frame.height == 500
    assert load_problems("simpleqa", source=copy_of(tmp_path, 40)).frame.height == 40


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aime_24", "Did you mean 'aime24'"),
        ("livebench_reasonin", "Did you mean 'livebench_reasoning'"),
        ("reasoning_gym:leg_countin", "Did you mean 'leg_counting'"),
        ("reasoning_gym:leg_counting:hrad", "Did you mean 'hard'"),
        ("reasoning_gym", "needs a task"),
        ("nothing.jsonl", "There is no file nothing.jsonl"),
        ("no/such/file", "There is no file no/such/file"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, words: str) -> None:
    with pytest.raises(OffleashError, match=words):
        load_problems(name)


def test_a_verifier_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"question": "q", "answer": "1", "verifier": "maths"}\n')
    with pytest.raises(OffleashError, match="Did you mean 'math'"):
        load_problems(path)


def test_reasoning_gym_is_generated() -> None:
    pytest.importorskip("reasoning_gym")
    easy = load_problems("reasoning_gym:leg_counting", size=4, seed=1).frame
    assert dict(easy.schema) == PROBLEMS
    assert_frame_equal(easy, load_problems("reasoning_gym:leg_counting", size=4, seed=1).frame)
    assert not set(easy["hash"]) & set(load_problems("reasoning_gym:leg_counting", size=4, seed=2).frame["hash"])
    assert easy["prompt"].null_count() == 0
    hard = load_problems("reasoning_gym:leg_counting:hard", size=4, seed=1).frame
    assert not set(easy["question"]) & set(hard["question"])
    with pytest.raises(OffleashError, match="is generated"):
        load_problems("reasoning_gym:leg_counting", source="x.jsonl")


def lines(frame: pl.DataFrame, path: Path) -> Path:
    path.write_text("".join(json.dumps(line(row)) + "\n" for row in frame.iter_rows(named=True)))
    return path


def test_what_is_printed_is_read_again_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [
        {"id": 1, "question": "1+1?", "answer": 2.50},
        {"id": 2, "question": "2+2?", "answer": "four", "choices": ["three", "four"]},
        {"id": 3, "question": "How long?", "answer": "1", "verifier": "number", "details": {"unit": "s", "x": None}},
        {"id": 4, "question": [{"role": "user", "content": "See."}], "answer": "1", "images": ["data:,x"]},
        {"id": 5, "question": " spaced\r\n", "answer": " 1 ", "guess": 0.25, "verifier": "string"},
        {"id": 6, "question": "Read it.", "verifier": "program", "details": {"kind": "stdin", "private": "eJw="}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = load_problems(path).frame
    assert_frame_equal(load_problems(lines(frame, tmp_path / "again.jsonl")).frame, frame)


@pytest.mark.parametrize("task", ["leg_counting", "rush_hour", "codeio"])
def test_generated_problems_are_read_again_unchanged(tmp_path: Path, task: str) -> None:
    pytest.importorskip("reasoning_gym")
    frame = load_problems(f"reasoning_gym:{task}", size=2).frame
    again = load_problems(lines(frame, tmp_path / "again.jsonl")).frame
    assert_frame_equal(again.drop("details"), frame.drop("details"))
    assert [json.loads(text) for text in again["details"]] == [json.loads(text) for text in frame["details"]]


def test_a_printed_benchmark_is_read_again_as_that_benchmark(tmp_path: Path) -> None:
    frame = load_problems("aime24", source=copy_of(tmp_path, 3)).frame
    path = lines(frame, tmp_path / "again.jsonl")
    assert_frame_equal(load_problems("aime24", source=path).frame, frame)
    assert_frame_equal(load_problems(path).frame, frame)


def test_a_file_needs_no_copy(tmp_path: Path) -> None:
    file = copy_of(tmp_path, 3)
    with pytest.raises(OffleashError, match=r"--from names a local copy of a benchmark, but .* is already a file"):
        load_problems(file, source="nope.jsonl")
    with pytest.raises(OffleashError, match="no benchmark or file"):
        load_problems("nowhere.jsonl", source=file)
