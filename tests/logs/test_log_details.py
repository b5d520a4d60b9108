"""What single formats do: filters, scorers, rewards, steps, errors of a run."""

import json
from pathlib import Path

import polars as pl
import pytest

from offleash.errors import OffleashError
from offleash.logs.format import Options
from tests.logs.log_reading import FIXTURES, lines, notes_text, read, verdicts

ONE = FIXTURES / "lm_eval/samples_tiny_one_2026-01-31T12-00-00.jsonl"
EVAL = FIXTURES / "inspect/tiny_sums.eval"
TWO_REWARDS = FIXTURES / "trl/completions_two_rewards.parquet"


def test_lm_eval_takes_the_first_filter_and_names_the_others() -> None:
    log, frame = read(ONE)
    assert "'strict-match'" in notes_text(log)
    assert "upper" in notes_text(log)
    assert frame.filter(pl.col("verdict") == "correct")["gold"].to_list() == ["lol"]


def test_lm_eval_takes_the_filter_that_was_asked_for() -> None:
    _, frame = read(ONE, Options(filter="upper"))
    assert frame.filter(pl.col("verdict") == "correct")["gold"].to_list() == ["LOL"]


def test_lm_eval_names_the_filters_there_are() -> None:
    with pytest.raises(OffleashError, match=r"no filter 'lower'.*strict-match, upper"):
        read(ONE, Options(filter="lower"))


def test_lm_eval_never_copies_the_verdict_of_a_document_to_its_repeats() -> None:
    log, frame = read(FIXTURES / "lm_eval/samples_tiny_four_2026-01-31T12-00-00.jsonl")
    assert frame["verdict"].null_count() == 16
    assert frame["text"].to_list() == ["lol"] * 16
    assert "share one verdict" in notes_text(log)


def test_lm_eval_prefers_the_question_of_the_document_to_the_prompt_of_the_model() -> None:
    log, frame = read(ONE)
    assert frame["question"][1] == "What is 2 + 3?"
    assert frame["benchmark"].unique().to_list() == ["tiny_one"]
    assert json.loads(log.facts["decoding"])["temperature"] == 0.7


def test_lm_eval_choices_are_one_pick_with_the_chance_of_a_guess() -> None:
    _, frame = read(FIXTURES / "lm_eval/samples_tiny_choice_2026-01-31T12-00-00.jsonl")
    assert frame["guess"].to_list() == [0.25] * 4
    assert frame["text"].null_count() == 4


def test_lm_eval_rows_of_before_filters_were_named_are_read(tmp_path: Path) -> None:
    row = {"doc_id": 0, "doc": {}, "target": "5", "arguments": [["Q: 2 + 3?", {"until": []}]], "exact_match": 1.0}
    path = lines(tmp_path / "log.jsonl", [{**row, "resps": [["5"]], "filtered_resps": ["5"]}])
    _, frame = read(path)
    assert frame.select("question", "text", "answer", "verdict").row(0) == ("Q: 2 + 3?", "5", "5", "correct")


def test_inspect_epochs_are_the_samples_of_a_problem() -> None:
    _, frame = read(EVAL)
    of_one = frame.filter(pl.col("problem") == "sum-0").sort("sample")
    assert of_one["sample"].to_list() == [1, 2, 3]
    assert of_one["text"].to_list() == ["5", "6", "no idea"]
    assert of_one["tokens"].to_list() == [1, 1, 7]
    assert of_one["verdict"].to_list() == ["correct", "wrong", "wrong"]


def test_inspect_reads_the_same_from_both_kinds_of_files() -> None:
    _, archive = read(EVAL)
    _, plain = read(FIXTURES / "inspect/tiny_sums.json")
    order = ["problem", "sample"]
    assert archive.sort(order).drop("row").equals(plain.sort(order).drop("row"))


def test_inspect_says_model_and_decoding() -> None:
    log, _ = read(EVAL)
    assert log.facts["model"] == "mockllm/model"
    assert log.facts["tool"].startswith("inspect_ai ")
    assert json.loads(log.facts["decoding"])["temperature"] == 0.8


def test_inspect_takes_the_scorer_that_was_asked_for() -> None:
    log, frame = read(EVAL, Options(filter="includes", texts=False))
    assert "those of includes; also available: match" in notes_text(log)
    assert verdicts(frame) == {"correct": 7, "wrong": 5}
    with pytest.raises(OffleashError, match=r"no scorer 'include'\. Did you mean 'includes'"):
        read(EVAL, Options(filter="include"))


def inspect_log(path: Path, samples: list[dict[str, object]]) -> Path:
    path.write_text(json.dumps({"version": 2, "status": "error", "eval": {"task": "t"}, "samples": samples}, indent=1))
    return path


def test_inspect_marks_partial_credit_no_answer_and_errors_apart(tmp_path: Path) -> None:
    def sample(epoch: int, value: object) -> dict[str, object]:
        return {"id": "a", "epoch": epoch, "input": "q", "target": "t", "scores": {"judge": {"value": value}}}

    broken = {"id": "a", "epoch": 9, "input": "q", "target": "t", "scores": {}, "error": {"message": "timeout"}}
    path = inspect_log(tmp_path / "log.json", [*map(sample, range(5), ["C", "I", "P", "N", True]), broken])
    log, frame = read(path)
    assert frame["verdict"].to_list() == ["correct", "wrong", "wrong", "unread", "correct"]
    assert frame["score"].to_list() == [None, None, 0.5, None, None]
    assert "1 scores are above 0" in notes_text(log)
    assert [(note.rows, note.left_out) for note in log.notes if "ended in an error" in note.text] == [(1, True)]
    assert "status 'error'" in notes_text(log)


def test_trl_takes_the_reward_that_is_named_like_correctness() -> None:
    log, frame = read(TWO_REWARDS)
    assert log.verifier == "TRL reward accuracy_reward"
    assert set(frame["score"].unique()) <= {0.0, 1.0}


def test_trl_takes_the_reward_that_was_asked_for() -> None:
    log, frame = read(TWO_REWARDS, Options(columns={"verdict": "length_reward"}, threshold=0.8))
    assert verdicts(frame).get("correct") == frame.filter(pl.col("score") >= 0.8).height
    assert "--threshold" in notes_text(log)


def test_trl_lists_the_rewards_when_none_is_telling(tmp_path: Path) -> None:
    path = tmp_path / "completions.parquet"
    pl.read_parquet(TWO_REWARDS).rename({"accuracy_reward": "style"}).write_parquet(path)
    with pytest.raises(OffleashError, match=r"style, length_reward.*--map verdict=NAME"):
        read(path)


def test_trl_steps_are_different_weights(tmp_path: Path) -> None:
    first = pl.read_parquet(FIXTURES / "trl/completions_00001.parquet")
    path = tmp_path / "completions.parquet"
    pl.concat([first, first.with_columns(step=pl.lit(2, pl.Int64))]).write_parquet(path)
    assert "--split-by step" in notes_text(read(path)[0])
    log, frame = read(path, Options(split_by="step"))
    assert "--split-by step" not in notes_text(log)
    assert frame["split"].value_counts().sort("split").rows() == [("1", 8), ("2", 8)]


def test_trl_keeps_a_sample_without_a_reward_as_unverified(tmp_path: Path) -> None:
    first = pl.read_parquet(FIXTURES / "trl/completions_00001.parquet")
    path = tmp_path / "completions.parquet"
    nan = pl.when(pl.col("advantage").cum_count() == 3).then(float("nan")).otherwise("accuracy_reward")
    first.with_columns(accuracy_reward=nan).write_parquet(path)
    log, frame = read(path)
    assert frame["verdict"].null_count() == 1
    assert "1 samples have no verdict (null or NaN, first in row 3)" in notes_text(log)


def test_verl_decides_by_acc_and_keeps_the_score() -> None:
    log, frame = read(FIXTURES / "verl/10.jsonl")
    assert log.verifier == "verl acc"
    assert frame["score"].to_list() == [1.0, -1.0] * 3
    assert frame["answer"][1] == "7"


def test_verl_steps_are_noted_or_split() -> None:
    assert "2 training steps" in notes_text(read(FIXTURES / "verl/steps.jsonl")[0])
    log, frame = read(FIXTURES / "verl/steps.jsonl", Options(split_by="step"))
    assert "training steps" not in notes_text(log)
    assert set(frame["split"]) == {"10", "20"}


def test_nemo_skills_reads_the_judgement_in_prose() -> None:
    _, frame = read(FIXTURES / "nemo_skills/output-rs1.jsonl", Options(filter="judgement"))
    assert frame["verdict"].to_list() == ["wrong", "correct", "correct"]


def test_nemo_skills_empty_objects_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text((FIXTURES / "nemo_skills/output-rs1.jsonl").read_text() + "{}\n")
    log, frame = read(path)
    assert frame.height == 3
    assert [note.rows for note in log.notes if note.left_out] == [1]


def test_qwen_math_keeps_the_order_and_the_finish_of_samples() -> None:
    _, frame = read(next((FIXTURES / "qwen_math").iterdir()))
    assert frame["sample"].to_list() == [0, 1, 2] * 3
    assert frame["finish"][1] == "length"


def test_evalplus_counts_by_the_plus_tests_unless_asked() -> None:
    path = FIXTURES / "evalplus/samples_eval_results.json"
    assert "plus tests" in notes_text(read(path)[0])
    assert verdicts(read(path, Options(filter="base"))[1]) == {"correct": 4, "wrong": 2}
    with pytest.raises(OffleashError, match="no test set 'extra'"):
        read(path, Options(filter="extra"))


def test_verifiers_leaves_out_rollouts_that_ended_in_an_error(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (FIXTURES / "verifiers/results.jsonl").read_text().splitlines()]
    rows[2]["error"] = "ProviderError"
    log, frame = read(lines(tmp_path / "results.jsonl", rows))
    assert frame.height == 11
    assert [(note.rows, note.left_out) for note in log.notes] == [(1, True)]


def test_lighteval_gold_is_the_choice_of_the_gold_index() -> None:
    for name in ("details_one", "details_old"):
        _, frame = read(FIXTURES / f"lighteval/{name}.parquet")
        assert sorted(frame["gold"]) == ["3", "42", "5"]
        assert "What is 2 + 3?" in frame["question"].to_list()


def test_livecodebench_answers_are_the_programs() -> None:
    _, frame = read(FIXTURES / "livecodebench/eval_all.json")
    assert frame["answer"][0] == "print(2 + 3)"
    assert frame["text"][0].startswith("```python")
