"""Every format: its fixtures are known by their content, are read in full, and are claimed by no other format."""

from pathlib import Path
from typing import NamedTuple

import pytest

from offleash.data.tables import COUNTS, ENTRIES
from offleash.errors import OffleashError
from offleash.files.detect import head_of
from offleash.logs.format import Options
from offleash.logs.registry import FORMATS, open_log
from tests.logs.log_reading import FIXTURES, read, verdicts


class Expected(NamedTuple):
    format: str
    problems: int
    samples: int
    verdicts: dict[str | None, int]


FILES: dict[str, Expected] = {
    "lm_eval/samples_tiny_one_2026-01-31T12-00-00.jsonl": Expected("lm_eval", 4, 4, {"correct": 1, "wrong": 3}),
    "lm_eval/samples_tiny_four_2026-01-31T12-00-00.jsonl": Expected("lm_eval", 4, 16, {None: 16}),
    "lm_eval/samples_tiny_choice_2026-01-31T12-00-00.jsonl": Expected("lm_eval", 4, 4, {"correct": 1, "wrong": 3}),
    "lighteval/details_one.parquet": Expected("lighteval", 3, 3, {"correct": 1, "wrong": 2}),
    "lighteval/details_many.parquet": Expected("lighteval", 3, 12, {None: 12}),
    "lighteval/details_old.parquet": Expected("lighteval", 3, 3, {"correct": 2, "wrong": 1}),
    "inspect/tiny_sums.eval": Expected("inspect", 4, 12, {"correct": 6, "wrong": 6}),
    "inspect/tiny_sums.json": Expected("inspect", 4, 12, {"correct": 6, "wrong": 6}),
    "nemo_skills/output-rs0.jsonl": Expected("nemo_skills", 3, 3, {"correct": 2, "unread": 1}),
    "nemo_skills/output-rs1.jsonl": Expected("nemo_skills", 3, 3, {"correct": 2, "wrong": 1}),
    "trl/completions_00001.parquet": Expected("trl", 2, 8, {"correct": 1, "wrong": 7}),
    "trl/completions_two_rewards.parquet": Expected("trl", 2, 8, {"correct": 4, "wrong": 4}),
    "verl/10.jsonl": Expected("verl", 3, 6, {"correct": 3, "wrong": 3}),
    "verl/steps.jsonl": Expected("verl", 3, 12, {"correct": 6, "wrong": 6}),
    "verl/plain.jsonl": Expected("verl", 3, 6, {"correct": 3, "wrong": 3}),
    "qwen_math/test_qwen25-math-cot_-1_seed0_t0.6_s0_e-1.jsonl": Expected(
        "qwen_math", 3, 9, {"correct": 3, "wrong": 3, "unread": 3}
    ),
    "verifiers/traces.jsonl": Expected("verifiers", 3, 12, {"correct": 3, "wrong": 9}),
    "verifiers/results.jsonl": Expected("verifiers", 3, 12, {"correct": 3, "wrong": 9}),
    "human_eval/samples.jsonl": Expected("human_eval", 1, 3, {None: 3}),
    "human_eval/samples.jsonl_results.jsonl": Expected("human_eval", 1, 3, {"correct": 1, "wrong": 2}),
    "evalplus/samples.jsonl": Expected("evalplus", 2, 6, {None: 6}),
    "evalplus/samples_eval_results.json": Expected("evalplus", 2, 6, {"correct": 2, "wrong": 4}),
    "livecodebench/output.json": Expected("livecodebench", 3, 6, {None: 6}),
    "livecodebench/eval_all.json": Expected("livecodebench", 3, 6, {"correct": 3, "wrong": 3}),
    "generic/samples.jsonl": Expected("generic", 3, 9, {"correct": 3, "wrong": 6}),
    "generic/lists.jsonl": Expected("generic", 3, 6, {"correct": 3, "wrong": 3}),
    "generic/verdicts.csv": Expected("generic", 3, 12, {"correct": 6, "wrong": 6}),
}
COUNTED = {"counts/counts.csv": (3, 128, 3), "counts/counts.jsonl": (3, 24, 3)}


@pytest.mark.parametrize("name", FILES)
def test_a_log_is_recognised_under_a_misleading_name_and_read_in_full(name: str, tmp_path: Path) -> None:
    disguised = tmp_path / "shopping list.txt"
    disguised.write_bytes((FIXTURES / name).read_bytes())
    log, frame = read(disguised)
    found = Expected(log.format, frame["problem"].n_unique(), frame.height, verdicts(frame))
    assert found == FILES[name]
    assert dict(frame.schema) == ENTRIES
    assert frame["row"].min() == (2 if name.endswith("csv") else 1)


@pytest.mark.parametrize("name", COUNTED)
def test_counts_are_recognised_and_read(name: str) -> None:
    log, frame = read(FIXTURES / name)
    assert log.counts
    assert log.format == "counts"
    assert (frame.height, frame["n"].sum(), frame["c"].sum()) == COUNTED[name]
    assert dict(frame.schema) == COUNTS


@pytest.mark.parametrize("name", [*FILES, *COUNTED])
def test_no_format_claims_the_fixture_of_another(name: str) -> None:
    own = FILES[name].format if name in FILES else "counts"
    head = head_of(FIXTURES / name)
    claims = [kind.name for kind in FORMATS.values() if kind.recognise(head)]
    assert claims[0] == own
    assert set(claims) - {own} <= {"generic"}  # which reads any table, and is asked last


def test_every_fixture_is_expected_somewhere() -> None:
    there = {str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*") if path.is_file()} - {"README.md"}
    assert there == {*FILES, *COUNTED}


def test_formats_are_called_by_their_own_names_and_generic_is_asked_last() -> None:
    assert all(name == kind.name for name, kind in FORMATS.items())
    assert list(FORMATS)[-1] == "generic"


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(OffleashError, match="Did you mean 'lm_eval'"):
        open_log(FIXTURES / "counts/counts.csv", Options(), "lmeval")


@pytest.mark.parametrize("name", FILES)
def test_without_texts_the_verdicts_are_the_same(name: str) -> None:
    _, frame = read(FIXTURES / name, Options(texts=False))
    assert verdicts(frame) == FILES[name].verdicts
    assert frame["text"].null_count() == frame.height


@pytest.mark.parametrize("name", [name for name in FILES if None in FILES[name].verdicts])
def test_a_log_without_verdicts_says_how_to_get_them(name: str) -> None:
    log, _ = read(FIXTURES / name)
    assert log.verifier is None
    assert log.unverified_hint


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("generic")])
def test_a_mapping_that_a_reader_would_not_use_is_an_error(name: str) -> None:
    with pytest.raises(OffleashError, match="--map guess=nothing is not used"):
        read(FIXTURES / name, Options(columns={"guess": "nothing"}))
