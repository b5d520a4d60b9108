"""Rollouts read as they appear: the counts of plain scripts, whatever the order, the cuts and the names of files."""

import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.errors import OffleashError
from offleash.logs.format import Options
from offleash.training.watch.rollouts import RolloutFolder, StepBatch
from tests.logs import plain_trainers as plain
from tests.logs.log_reading import FIXTURES


class Trainer(NamedTuple):
    """A folder of fixtures, what counts them, and the options they need."""

    folder: str
    counted: Callable[..., plain.Counts]
    pattern: str
    columns: Mapping[str, str] = {}


TRAINERS = {
    "trl": Trainer("trl/reused_rl", plain.trl, "*.parquet"),
    "verl": Trainer("verl", plain.verl, "rollouts_rl.jsonl"),
    "prime_rl": Trainer("prime_rl/rl", plain.prime_rl, "step_1/eval/all/traces.jsonl"),
    "nemo_rl": Trainer("nemo_rl/rl", plain.nemo_rl_training, "train_data_step20.jsonl"),
    "skyrl": Trainer("skyrl/global_step_20_evals", plain.skyrl, "sums.jsonl"),
    "open_instruct": Trainer("open_instruct", plain.open_instruct, "rl_rollouts_000000.jsonl"),
    "swift": Trainer("swift/rl", plain.swift, "completions.jsonl"),
    "tinker": Trainer("tinker/rl", plain.tinker, "eval_test_rollout_summaries.jsonl"),
    "areal": Trainer("areal/rl", plain.areal, "*.jsonl"),
    "art": Trainer("art/rl", plain.art, "0020.parquet", {"verdict": "correct"}),
}


def copied(trainer: Trainer, folder: Path) -> list[Path]:
    """The files of a trainer, copied under their own names; folders too, by which steps are known."""
    source = FIXTURES / trainer.folder
    paths = sorted(source.glob(trainer.pattern))
    for path in paths:
        target = folder / source.name / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return [folder / source.name / path.relative_to(source) for path in paths]


def counts(folder: RolloutFolder) -> list[tuple[int, int]]:
    """Samples and correct ones of each problem, over all steps."""
    samples = [sample for batch in folder.by_batch for sample in folder.samples_of(batch)]
    of_problem = [[sample.verdict for sample in samples if sample.problem == p] for p in range(len(folder.problems))]
    return sorted((len(verdicts), verdicts.count("correct")) for verdicts in of_problem if verdicts)


def read(path: Path, columns: Mapping[str, str] = {}) -> RolloutFolder:
    folder = RolloutFolder(path, Options(columns=columns))
    folder.refresh()
    return folder


@pytest.mark.parametrize("name", TRAINERS)
def test_the_counts_are_those_of_a_plain_script(name: str, tmp_path: Path) -> None:
    trainer = TRAINERS[name]
    paths = copied(trainer, tmp_path)
    folder = read(tmp_path, trainer.columns)
    assert folder.trainer == name
    assert counts(folder) == sorted(trainer.counted(*paths).values())
    assert all(not file.waiting and not file.damaged for file in folder.files.values())


@pytest.mark.parametrize("name", [name for name, trainer in TRAINERS.items() if trainer.pattern.endswith("jsonl")])
def test_a_file_torn_at_every_byte_of_its_last_line_counts_what_is_complete_and_then_everything(
    name: str, tmp_path: Path
) -> None:
    trainer = TRAINERS[name]
    path = copied(trainer, tmp_path)[-1]
    for other in tmp_path.rglob("*.jsonl"):
        if other != path:
            other.unlink()
    whole = path.read_bytes().rstrip(b"\n")
    last = whole.rfind(b"\n") + 1
    path.write_bytes(whole)
    truth = counts(read(tmp_path, trainer.columns))
    path.write_bytes(whole[:last])
    without_last = counts(read(tmp_path, trainer.columns))
    live = read(tmp_path, trainer.columns)
    for cut in range(last + 1, len(whole)):
        path.write_bytes(whole[:cut])
        live.refresh()
        fresh = read(tmp_path, trainer.columns) if cut % 50 == 0 else live  # who begins to watch now sees the same
        for folder in {id(folder): folder for folder in (live, fresh)}.values():
            assert counts(folder) == without_last
            assert folder.files[path].waiting
    path.write_bytes(whole)
    live.refresh()
    assert counts(live) == truth
    assert not live.files[path].waiting


@pytest.mark.parametrize("name", ["trl", "art"])
def test_a_parquet_file_that_is_being_written_is_tried_again(name: str, tmp_path: Path) -> None:
    trainer = TRAINERS[name]
    *_, path = paths = copied(trainer, tmp_path)
    whole = path.read_bytes()
    path.unlink()
    folder = RolloutFolder(tmp_path, Options(columns=trainer.columns))
    for cut in [1, 3, 4, 5, *range(6, len(whole), 101), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        folder.refresh()
        assert not folder.files[path].samples
    path.write_bytes(whole)
    folder.refresh()
    assert counts(folder) == sorted(trainer.counted(*paths).values())


@pytest.mark.parametrize("name", TRAINERS)
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_the_order_and_the_pieces_in_which_files_arrive_change_nothing(
    name: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trainer, tmp_path, rng = TRAINERS[name], tmp_path_factory.mktemp(name), random.Random(seed)
    paths = copied(trainer, tmp_path)
    contents = {path: path.read_bytes() for path in paths}
    at_once = counts(read(tmp_path, trainer.columns))
    for path in paths:
        path.unlink()
    folder = RolloutFolder(tmp_path, Options(columns=trainer.columns))
    for path in rng.sample(paths, len(paths)):
        for size in sorted(rng.randrange(1, len(contents[path])) for _ in range(2)):
            path.write_bytes(contents[path][:size])
            folder.refresh()
        path.write_bytes(contents[path])
        folder.refresh()
    assert counts(folder) == at_once


# What is counted once.


def verl_row(step: int, problem: str, score: float, text: str = "so", **more: Any) -> dict[str, Any]:
    return {"input": problem, "output": text, "gts": "1", "score": score, "step": step, **more}


def write(path: Path, rows: list[dict[str, Any]], mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_a_file_that_was_written_again_counts_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "7.jsonl"
    write(path, [verl_row(7, "a", 1), verl_row(7, "a", 0)])
    folder = read(tmp_path)
    write(path, [verl_row(7, "a", 0), verl_row(7, "a", 0), verl_row(7, "b", 1)])  # a training resumed before step 7
    changes = folder.refresh()
    assert counts(folder) == [(1, 1), (2, 0)]
    assert changes.batches == {StepBatch(7, evaluation=False)}


def test_a_log_that_was_rotated_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    write(path, [verl_row(1, "a", 1), verl_row(1, "a", 0)])
    folder = read(tmp_path)
    path.rename(tmp_path / "rollouts.jsonl.1")
    write(path, [verl_row(2, "a", 0)])
    folder.refresh()
    assert counts(folder) == [(3, 1)]
    shutil.copy(path, tmp_path / "rollouts.jsonl.2")  # copied, and cut to nothing
    write(path, [verl_row(3, "a", 1)])
    folder.refresh()
    assert counts(folder) == [(4, 2)]


def test_equal_texts_within_a_group_are_separate_samples(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", [verl_row(1, "a", 1)] * 5)
    assert counts(read(tmp_path)) == [(5, 5)]


def test_a_row_that_cannot_be_read_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", [verl_row(1, "a", 1), verl_row(1, "a", "perhaps"), verl_row(1, "a", 0)])  # type: ignore[arg-type]
    folder = read(tmp_path)
    (file,) = folder.files.values()
    assert counts(folder) == [(2, 1)]
    assert (file.damaged, "row 2" in file.fault) == (1, True)


def test_validation_is_kept_apart_from_training(tmp_path: Path) -> None:
    write(tmp_path / "rollouts" / "1.jsonl", [verl_row(1, "a", 1, uid="u1"), verl_row(1, "a", 0, uid="u2")])
    write(tmp_path / "validation" / "1.jsonl", [verl_row(1, "a", 1, reward=1.0)])
    folder = read(tmp_path)
    assert {batch: len(folder.samples_of(batch)) for batch in folder.by_batch} == {
        StepBatch(1, evaluation=False): 2,
        StepBatch(1, evaluation=True): 1,
    }


def test_weights_tokenizers_and_metrics_are_not_read(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "model.safetensors", "rollout.pt", "metrics.jsonl"):
        (tmp_path / name).write_text('{"loss": 1.0}\n')
    folder = read(tmp_path)
    assert [path.name for path in folder.files] == ["metrics.jsonl"]
    assert folder.trainer is None


def test_a_reward_that_must_be_chosen_is_refused_with_its_candidates(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "trl" / "completions_two_rewards.parquet", tmp_path / "completions_00001.parquet")
    frame = pl.read_parquet(tmp_path / "completions_00001.parquet")
    rewards = [name for name in frame.columns if "reward" in name]
    frame.rename({rewards[0]: "r1", rewards[1]: "r2"}).write_parquet(tmp_path / "completions_00001.parquet")
    with pytest.raises(OffleashError, match="--map verdict=NAME"):
        read(tmp_path)
    assert counts(read(tmp_path, {"verdict": "r1"}))


# What a look costs.


def test_a_look_reads_what_is_new_and_no_more(tmp_path: Path) -> None:
    rows = [verl_row(1, f"p{number % 8}", number % 2, "x" * 200) for number in range(64)]
    for step in range(1, 41):
        write(tmp_path / f"{step}.jsonl", [{**row, "step": step} for row in rows])
    folder = read(tmp_path)
    assert folder.refresh().bytes == 0
    write(tmp_path / "41.jsonl", [{**row, "step": 41} for row in rows])
    changes = folder.refresh()
    assert (changes.samples, changes.bytes) == (64, (tmp_path / "41.jsonl").stat().st_size)
    before = (tmp_path / "41.jsonl").stat().st_size
    write(tmp_path / "41.jsonl", [verl_row(41, "p1", 1)], "a")
    changes = folder.refresh()
    assert (changes.samples, changes.bytes) == (1, (tmp_path / "41.jsonl").stat().st_size - before)
