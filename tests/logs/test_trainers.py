"""The rollout files of trainers: what a problem is in each, what is counted once, what is refused."""

import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offleash as ol
from offleash.errors import OffleashError
from offleash.files.detect import read_head
from offleash.logs import art, nemo_rl, prime_rl, trl
from offleash.logs.format import Ids, Options, Skip
from offleash.logs.registry import open_log
from offleash.logs.training import overlap
from tests.logs import plain_trainers as plain
from tests.logs.log_reading import FIXTURES, lines, notes_text, read, verdicts
from tests.logs.plain_counts import assert_same


class Pair(NamedTuple):
    """The files of two runs, what counts them, and the options that the comparison needs."""

    counted: Callable[..., plain.Counts]
    base: str
    rl: str
    options: Mapping[str, Any] = MappingProxyType({})


PAIRS: dict[str, Pair] = {
    "verl with the uid of a sample": Pair(plain.verl, "verl/rollouts_base.jsonl", "verl/rollouts_rl.jsonl"),
    "verl validation": Pair(plain.verl, "verl/validation_base.jsonl", "verl/validation_rl.jsonl"),
    "prime-rl": Pair(
        plain.prime_rl,
        "prime_rl/base/step_1/eval/all/traces.jsonl",
        "prime_rl/rl/step_1/eval/all/traces.jsonl",
    ),
    "NeMo-RL training": Pair(
        plain.nemo_rl_training, "nemo_rl/base/train_data_step0.jsonl", "nemo_rl/rl/train_data_step20.jsonl"
    ),
    "NeMo-RL validation": Pair(
        plain.nemo_rl_validation, "nemo_rl/base/val_data_step0.jsonl", "nemo_rl/rl/val_data_step20.jsonl"
    ),
    "SkyRL": Pair(plain.skyrl, "skyrl/eval_only/sums.jsonl", "skyrl/global_step_20_evals/sums.jsonl"),
    "open-instruct": Pair(
        plain.open_instruct, "open_instruct/base_rollouts_000000.jsonl", "open_instruct/rl_rollouts_000000.jsonl"
    ),
    "ms-swift": Pair(plain.swift, "swift/base/completions.jsonl", "swift/rl/completions.jsonl"),
    "tinker-cookbook": Pair(
        plain.tinker,
        "tinker/base/eval_test_rollout_summaries.jsonl",
        "tinker/rl/eval_test_rollout_summaries.jsonl",
    ),
    "AReaL": Pair(plain.areal, "areal/base/*.jsonl", "areal/rl/*.jsonl"),
    "ART": Pair(plain.art, "art/base/0000.parquet", "art/rl/0020.parquet", {"columns": {"verdict": "correct"}}),
    "TRL with batches used twice": Pair(plain.trl, "trl/reused_base/*.parquet", "trl/reused_rl/*.parquet"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_comparison_has_the_counts_of_a_plain_script(name: str) -> None:
    pair = PAIRS[name]
    base, rl = (pair.counted(*sorted(FIXTURES.glob(pattern))) for pattern in (pair.base, pair.rl))
    assert_same(base, rl, FIXTURES / pair.base, FIXTURES / pair.rl, **pair.options)


# TRL


def trl_files(run: str) -> list[Path]:
    return sorted((FIXTURES / "trl" / run).glob("*.parquet"))


def test_a_batch_that_trl_logs_at_two_steps_is_skipped_the_second_time() -> None:
    paths = trl_files("reused_base")
    skipped = trl.skip(paths)
    assert list(skipped) == [paths[1]]
    assert skipped[paths[1]].rows is None
    assert paths[0].name in skipped[paths[1]].why


def test_a_file_is_not_skipped_without_the_one_that_it_repeats() -> None:
    first, second, third = trl_files("reused_base")
    assert trl.skip([second, third]) == {}
    assert trl.skip([first, third, second]) == {}


def test_only_the_rows_left_over_from_the_file_before_are_skipped(tmp_path: Path) -> None:
    first, _, third = (pl.read_parquet(path) for path in trl_files("reused_base"))
    later = pl.concat([first.tail(4), third.head(12)])
    paths = [tmp_path / name for name in ("completions_00001.parquet", "completions_00002.parquet")]
    first.write_parquet(paths[0])
    later.write_parquet(paths[1])
    assert {path: skip.rows for path, skip in trl.skip(paths).items()} == {paths[1]: 4}


def test_a_damaged_file_is_left_to_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "completions_00002.parquet"
    path.write_bytes(b"PAR1 nothing")
    assert trl.skip([*trl_files("reused_base")[:1], path]) == {}


GROUPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from("xy"), min_size=2, max_size=2)), max_size=6
)


def logged(groups: list[tuple[str, list[str]]]) -> pl.DataFrame:
    rows = [(prompt, text) for prompt, texts in groups for text in texts]
    return pl.DataFrame(rows, schema={"prompt": pl.String, "completion": pl.String}, orient="row")


@given(GROUPS, GROUPS)
def test_an_overlap_is_a_whole_batch_or_the_end_of_one_and_the_beginning_of_the_next(
    before: list[tuple[str, list[str]]], after: list[tuple[str, list[str]]]
) -> None:
    old, new = logged(before), logged(after)
    size = overlap(old, new)
    assert size % 2 == 0  # groups of two are never cut
    assert new.head(size).equals(old.tail(size)) or (
        new.head(size).equals(old.head(size)) and size == min(len(old), len(new))
    )


@given(GROUPS.filter(len), GROUPS)
def test_a_batch_that_is_logged_again_is_found_whatever_follows_it(
    batch: list[tuple[str, list[str]]], later: list[tuple[str, list[str]]]
) -> None:
    rows = logged(batch)
    assert overlap(rows, logged(batch + later)) == rows.height
    assert overlap(logged(batch + later), rows) == rows.height


def test_problems_of_one_prompt_are_kept_apart_by_the_logged_answer() -> None:
    _, frame = read(trl_files("reused_rl")[0])
    digits = frame.filter(pl.col("question") == "which digit?")
    assert sorted(digits["gold"].unique()) == ["0", "1", "2"]


def test_an_answer_that_is_a_number_is_no_reward(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame = pl.read_parquet(trl_files("reused_base")[0])
    frame.with_columns(pl.col("answer").cast(pl.Int64)).write_parquet(path)
    log, _ = read(path)
    assert log.verifier == "TRL reward logged_accuracy"


def test_images_that_trl_logs_are_part_of_the_problem(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame = pl.read_parquet(trl_files("reused_base")[0]).drop("answer")
    frame.with_columns(images=pl.Series([[f"{number // 4}.png"] for number in range(16)])).write_parquet(path)
    _, entries = read(path)
    assert entries["contents"].n_unique() == 4
    assert entries["contents"].null_count() == 0


def test_a_marker_of_evaluation_rows_is_named_with_the_option_that_separates_them(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    marker = pl.Series(["train"] * 8 + ["eval"] * 8)
    pl.read_parquet(trl_files("reused_base")[0]).with_columns(split=marker).write_parquet(path)
    assert "--split-by split" in notes_text(read(path)[0])
    _, frame = read(path, Options(split_by="split"))
    assert dict(frame["split"].value_counts().rows()) == {"train": 8, "eval": 8}


# verl


def test_the_uid_of_verl_is_no_problem() -> None:
    assert open_log(FIXTURES / "verl/rollouts_base.jsonl", Options()).ids is Ids.GROUP
    assert open_log(FIXTURES / "verl/validation_base.jsonl", Options()).ids is Ids.PROBLEM


def test_gold_answers_of_verl_may_be_objects_and_lists(tmp_path: Path) -> None:
    golds: list[object] = [{"b": 1, "a": [2]}, ["x", "y"], 3, None]
    rows = [{"input": "q", "output": "o", "gts": gold, "score": 1, "step": 1} for gold in golds]
    _, frame = read(lines(tmp_path / "1.jsonl", rows))
    assert frame["gold"].to_list() == ['{"a": [2], "b": 1}', '["x", "y"]', "3", None]


def test_one_prompt_with_two_images_is_two_contents(tmp_path: Path) -> None:
    rows = [{"input": "q", "output": "o", "score": 1, "step": 1, "images": [f"{i}.png"]} for i in (0, 0, 1)]
    _, frame = read(lines(tmp_path / "1.jsonl", rows))
    assert frame["contents"].n_unique() == 2


# prime-rl


def test_effective_is_skipped_beside_all_and_read_alone() -> None:
    folder = FIXTURES / "prime_rl/rl/step_1/eval"
    every, effective = folder / "all/traces.jsonl", folder / "effective/traces.jsonl"
    assert prime_rl.skip([every, effective]) == {effective: Skip("its rollouts are a selection of those in all/")}
    assert prime_rl.skip([effective]) == {}


def test_prime_rl_is_split_by_the_step_of_the_training() -> None:
    path = FIXTURES / "prime_rl/rl/step_1/eval/all/traces.jsonl"
    assert read(path, Options(split_by="step"))[1]["split"].unique().to_list() == ["20"]
    assert read(path, Options(split_by="kind"))[1]["split"].unique().to_list() == ["eval"]


def test_rows_that_are_traces_have_the_problems_of_later_versions() -> None:
    _, new = read(FIXTURES / "prime_rl/rl/step_1/eval/all/traces.jsonl")
    _, old = read(FIXTURES / "prime_rl/old_traces.jsonl")
    fields = ["identity", "question", "gold", "benchmark", "text", "verdict", "score"]
    assert old.select(fields).equals(new.select(fields))


def test_the_index_of_a_stream_is_skipped_beside_it_and_refused_alone(tmp_path: Path) -> None:
    row = {"line": 1, "offset": 0, "id": "e", "kind": "train", "trace_ids": ["t"], "group": "g", "reward": 1.0}
    index, stream = lines(tmp_path / "index.jsonl", [row]), FIXTURES / "prime_rl/rl/step_1/eval/all/traces.jsonl"
    assert open_log(index, Options()).format == "prime_rl"
    assert list(prime_rl.skip([index, stream])) == [index]
    assert prime_rl.skip([index]) == {}
    with pytest.raises(OffleashError, match="is the index of traces"):
        read(index)


def test_two_rewarded_agents_are_refused(tmp_path: Path) -> None:
    trace = {"nodes": [], "rewards": {"correct": {"score": 1.0}}}
    row = {"task": {"key": "k"}, "ok": True, "run": {"work": {"step": 1}}, "traces": [trace, trace]}
    with pytest.raises(OffleashError, match="row 1: it has 2 agents with a reward"):
        read(lines(tmp_path / "traces.jsonl", [row]))


# NeMo-RL


def training_row(**fields: object) -> dict[str, object]:
    return {"content": [["system", "q", "a"]], "rewards": [1.0], "idx": 0, **fields}


def test_the_prompt_of_nemo_rl_ends_where_the_loss_mask_begins(tmp_path: Path) -> None:
    turns = {"content": [["q", "a", "wrong", "b", "right"]], "token_loss_mask": [[0, 1, 1, 0, 1, 0, 0, 0]]}
    rows = [
        training_row(token_loss_mask=[[0, 0, 1, 1]], input_lengths=[4]),
        training_row(generation_logprobs=[[0.0, 0.0, -1.0]], input_lengths=[3]),
        training_row(**turns, input_lengths=[6]),
        training_row(content=[["q", "a"]]),
    ]
    _, frame = read(lines(tmp_path / "train_data_step3.jsonl", rows))
    assert frame.select("question", "text").rows() == [
        ("system\n\nq", "a"),
        ("system\n\nq", "a"),
        ("q", "a\n\nb"),
        ("q", "a"),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "3 messages and no 'token_loss_mask'"),
        ({"token_loss_mask": [[1, 0, 1, 0]], "input_lengths": [4]}, "its loss mask implies 4 after the prompt"),
        ({"content": [[]]}, "not a list with the messages"),
    ],
)
def test_an_unclear_prompt_is_refused(fields: dict[str, object], message: str, tmp_path: Path) -> None:
    rows = [training_row(token_loss_mask=[[0, 0, 1]], input_lengths=[3]), training_row(**fields)]
    with pytest.raises(OffleashError, match=f"row 2: .*{message}"):
        read(lines(tmp_path / "log", rows))


def test_the_step_is_read_from_the_name_where_the_name_has_it(tmp_path: Path) -> None:
    rows = [training_row(content=[["q", "a"]])]
    _, frame = read(lines(tmp_path / "train_data_step12.jsonl", rows), Options(split_by="step"))
    assert frame["split"].to_list() == ["12"]
    with pytest.raises(OffleashError, match="--split-by"):
        read(lines(tmp_path / "log", rows), Options(split_by="step"))


def test_a_table_with_a_plain_content_is_not_nemo_rl(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"content": "x", "rewards": 1.0, "idx": 0}]
    assert not nemo_rl.recognise(read_head(lines(tmp_path / "log", rows)))


# SkyRL, open-instruct, ms-swift, tinker-cookbook, AReaL, ART


def test_rewards_of_tokens_are_summed(tmp_path: Path) -> None:
    common = {"input_prompt": "q", "output_response": "o", "env_class": "e"}
    scores: list[object] = [[0.0, 0.4, 0.6], [0.0, 0.5], [], 1.0, None, [float("nan")]]
    _, frame = read(lines(tmp_path / "log", [{**common, "score": score} for score in scores]))
    assert frame["verdict"].to_list() == ["correct", "wrong", "wrong", "correct", None, None]
    with pytest.raises(OffleashError, match="row 1: 'score' is a list in which not all values are numbers"):
        read(lines(tmp_path / "log", [{**common, "score": [0.0, "x"]}]))


def test_open_instruct_matches_prompts_by_their_tokens_not_by_their_number() -> None:
    frames = [read(FIXTURES / f"open_instruct/{run}_rollouts_000000.jsonl")[1] for run in ("base", "rl")]
    problems = [set(frame["problem"]) for frame in frames]
    assert problems[0] == problems[1]
    assert frames[0]["text"].null_count() == frames[0].height


def test_ms_swift_counts_a_batch_once_that_it_logs_twice() -> None:
    log, frame = read(FIXTURES / "swift/base/completions.jsonl")
    assert frame.height == 28
    assert [(note.rows, note.left_out) for note in log.notes if note.left_out] == [(16, True)]


def test_ms_swift_keeps_a_sample_that_is_like_the_last_of_the_line_before(tmp_path: Path) -> None:
    def line(step: int, texts: list[str], rewards: list[float]) -> dict[str, object]:
        count = len(texts)
        return {"step": [str(step)] * count, "prompt": ["q"] * count, "completion": texts, "acc": rewards}

    rows = [line(1, ["a", "b"], [0.0, 1.0]), line(2, ["b", "c"], [1.0, 0.0])]
    assert read(lines(tmp_path / "log", rows))[1].height == 4


def test_ms_swift_in_megatron_and_in_old_versions(tmp_path: Path) -> None:
    megatron = {
        "gen_step": [3, 3],
        "prompt": ["q", "q"],
        "completion": ["a", "b"],
        "acc": [1, 0],
        "advantages": [1, -1],
    }
    chat = [{"role": "user", "content": "q"}]
    old = {"step": ["3", "3"], "messages": [chat, chat], "completion": ["a", "b"], "reward": [1.0, 0.0]}
    for row, step in ((megatron, "gen_step"), (old, "step")):
        log, frame = read(lines(tmp_path / "log", [row]), Options(split_by=step))
        assert log.format == "swift"
        assert frame.select("question", "text", "verdict", "split").rows() == [
            ("q", "a", "correct", "3"),
            ("q", "b", "wrong", "3"),
        ]


def test_groups_of_a_tinker_training_are_not_matched_with_those_of_another() -> None:
    base, rl = (FIXTURES / f"tinker/{run}/train_rollout_summaries.jsonl" for run in ("base", "rl"))
    assert open_log(base, Options()).ids is Ids.GROUP
    with pytest.raises(OffleashError):
        ol.compare(base, rl)


def test_tinker_reads_the_reward_where_it_is_mapped() -> None:
    path = FIXTURES / "tinker/base/eval_test_rollout_summaries.jsonl"
    _, frame = read(path, Options(columns={"verdict": "total_reward"}))
    assert verdicts(frame) == {"correct": 3, "wrong": 21}  # the first of each four has a penalty for its format
    with pytest.raises(OffleashError, match="row 1: it has no 'accuracy'"):
        read(path, Options(columns={"verdict": "accuracy"}))


def test_versions_of_weights_are_kept_apart(tmp_path: Path) -> None:
    row = {"task_id": 1, "head_version": 1, "tail_version": 1, "reward": 1, "prompt": "q", "completion": "a"}
    path = lines(tmp_path / "log", [row, {**row, "tail_version": 2}])
    assert "--split-by tail_version keeps them apart" in notes_text(read(path)[0])
    assert read(path, Options(split_by="tail_version"))[1]["split"].to_list() == ["1", "2"]


def test_what_tools_returned_is_no_part_of_a_sample_of_areal(tmp_path: Path) -> None:
    roles = [("prompt", "q"), ("gen", "call"), ("context", "result"), ("gen", "answer")]
    row = {"task_id": 1, "head_version": 1, "tail_version": 1, "reward": -0.5, "prompt": "q", "completion": "all"}
    segments = [{"role": role, "len": 1, "text": text} for role, text in roles]
    _, frame = read(lines(tmp_path / "log", [{**row, "segments": segments, "original_reward": 1.0}]))
    assert frame.select("text", "verdict").rows() == [("call\n\nanswer", "correct")]


def test_examples_in_a_prompt_of_art_are_not_written_by_the_model(tmp_path: Path) -> None:
    def said(role: str, content: str, trainable: bool) -> dict[str, object]:
        return {"role": role, "content": content, "trainable": trainable}

    messages = [said("user", "1+1?", False), said("assistant", "2", False), said("user", "2+2?", False)]
    row = {"group_index": 0, "reward": 1.0, "metrics": None, "metadata": '{"answer": "4"}'}
    pl.DataFrame([{**row, "messages": [*messages, said("assistant", "4", True)]}]).write_parquet(
        tmp_path / "0001.parquet"
    )
    assert art.recognise(read_head(tmp_path / "0001.parquet"))
    _, frame = read(tmp_path / "0001.parquet", Options(split_by="step"))
    assert frame.select("question", "gold", "text", "split").rows() == [("1+1?\n\n2\n\n2+2?", "4", "4", "1")]


def test_metadata_of_art_that_is_not_json_is_refused(tmp_path: Path) -> None:
    row = {"group_index": 0, "reward": 1.0, "metrics": "{oops", "metadata": None, "messages": [{"role": "user"}]}
    pl.DataFrame([row]).write_parquet(tmp_path / "0001.parquet")
    with pytest.raises(OffleashError, match="row 1: 'metrics' is not JSON"):
        read(tmp_path / "0001.parquet")


# Pickles


class Harmful:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_are_refused_and_never_loaded(protocol: int, tmp_path: Path) -> None:
    trace = tmp_path / "loaded"
    plain_pickle, torch_file = tmp_path / "rollouts.pkl", tmp_path / "rollouts.jsonl"
    plain_pickle.write_bytes(pickle.dumps(Harmful(trace), protocol))
    with zipfile.ZipFile(torch_file, "w") as archive:  # as torch.save writes, whatever the file is called
        archive.writestr("rollouts/data.pkl", pickle.dumps(Harmful(trace), protocol))
    for path in (plain_pickle, torch_file):
        with pytest.raises(OffleashError, match="is a pickle, which is never loaded"):
            read(path)
    assert not trace.exists()
