"""Metrics: every step once, whatever was killed, in JSON lines and in TensorBoard."""

import json
import sys
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.training.metrics import FILE, TENSORBOARD_FOLDER, Metrics, read_metrics


def steps(folder: Path) -> list[float | None]:
    return [line["step"] for line in read_metrics(folder)]


def written(folder: Path, count: int) -> None:
    metrics = Metrics(folder, tensorboard=False)
    for step in range(1, count + 1):
        metrics.write(step, {"reward": step / 10})
    metrics.close()


def test_a_step_is_on_the_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "run", tensorboard=False)
    metrics.write(1, {"reward": 0.25, "entropy/token": 1.5})
    assert read_metrics(tmp_path / "run" / FILE) == [{"step": 1, "reward": 0.25, "entropy/token": 1.5}]
    metrics.close()


def test_what_is_no_number_is_null_and_the_file_stays_json(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    metrics.write(1, {"loss": float("nan"), "ratio": float("inf"), "reward": 1.0})
    metrics.close()
    assert json.loads((tmp_path / FILE).read_text()) == {"step": 1, "loss": None, "ratio": None, "reward": 1.0}


def test_a_resumed_run_has_every_step_once(tmp_path: Path) -> None:
    written(tmp_path, 7)
    metrics = Metrics(tmp_path, tensorboard=False)
    metrics.resume(5)
    for step in (5, 6):
        metrics.write(step, {"reward": 9.0})
    metrics.close()
    assert [(line["step"], line["reward"]) for line in read_metrics(tmp_path)] == [
        (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (5, 9.0), (6, 9.0)
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_any_cut_of_the_file_by_a_kill_is_mended(tmp_path: Path) -> None:
    written(tmp_path, 3)
    whole = (tmp_path / FILE).read_bytes()
    for cut in range(len(whole) + 1):
        (tmp_path / FILE).write_bytes(whole[:cut])
        before = read_metrics(tmp_path)
        metrics = Metrics(tmp_path, tensorboard=False)
        metrics.write(9, {"reward": 0.0})
        metrics.close()
        assert read_metrics(tmp_path) == [*before, {"step": 9, "reward": 0.0}]
        assert len(before) >= whole[:cut].count(b"\n")


def test_a_resume_after_a_cut_keeps_what_is_whole(tmp_path: Path) -> None:
    written(tmp_path, 4)
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:-5] + b"\x00\xff")
    metrics = Metrics(tmp_path, tensorboard=False)
    metrics.resume(3)
    assert steps(tmp_path) == [1, 2]


def test_a_line_in_the_middle_that_is_something_else_is_named(tmp_path: Path) -> None:
    for line in ("hello", "[1]", '{"reward": 1}', '{"step": 2, "reward": "high"}', ""):
        (tmp_path / FILE).write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
        with pytest.raises(OffleashError, match=r"Line 2 of .*metrics\.jsonl"):
            read_metrics(tmp_path)


def test_a_folder_without_metrics_is_named(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"metrics\.jsonl"):
        read_metrics(tmp_path)


def test_tensorboard_shows_every_step_of_a_resumed_run_once(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    metrics = Metrics(tmp_path)
    assert metrics.note == ""
    for step in (1, 2, 3):
        metrics.write(step, {"pass@16": 0.1, "loss": float("nan")})
    metrics.resume(3)
    metrics.write(3, {"pass@16": 0.9})
    metrics.write(4, {"pass@16": 1.0})
    metrics.close()
    shown = reader.EventAccumulator(str(tmp_path / TENSORBOARD_FOLDER))
    shown.Reload()
    assert shown.Tags()["scalars"] == ["pass@16"]
    actual = [(event.step, round(event.value, 3)) for event in shown.Scalars("pass@16")]
    assert actual == [(1, 0.1), (2, 0.1), (3, 0.9), (4, 1.0)]


def test_without_tensorboard_the_lines_are_written_and_a_note_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as an import finds it where it is missing
    metrics = Metrics(tmp_path)
    metrics.write(1, {"reward": 1.0})
    metrics.close()
    assert "pip install tensorboard" in metrics.note
    assert steps(tmp_path) == [1]
    assert not (tmp_path / TENSORBOARD_FOLDER).exists()


def test_tensorboard_that_is_not_wanted_is_not_missed(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, tensorboard=False)
    metrics.write(1, {"reward": 1.0})
    metrics.close()
    assert metrics.note == ""
    assert not (tmp_path / TENSORBOARD_FOLDER).exists()
