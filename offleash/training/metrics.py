"""Training metrics: one JSON line per step, and TensorBoard if it is installed; truncated on resume."""

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from offleash.errors import OffleashError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"

MetricsLine = dict[str, float | None]


class Metrics:
    """The metrics of a training folder, open for writing; `note` is a message for the user, or empty."""

    def __init__(self, folder: Path, tensorboard: bool = True) -> None:
        self.path = folder / FILE
        self.note = _tensorboard_note() if tensorboard else ""
        self._board = folder / TENSORBOARD_FOLDER if tensorboard and not self.note else None
        self._writer: SummaryWriter | None = None
        self._first: int | None = None  # TensorBoard drops what was logged before of this step and later ones
        self._file: IO[str] | None = None
        if self.path.exists():
            _truncate(self.path, None)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append the values of a step; NaN and infinities become null."""
        line = {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8")
            self._file.write(json.dumps({"step": step, **line}, allow_nan=False) + "\n")
            self._file.flush()
            self._show(step, line)
        except OSError as error:
            raise OffleashError(
                f"{self.path} could not be written ({error.strerror or error}). Free some disk space, then run again."
            ) from None

    def resume(self, step: int) -> None:
        """Drop what was written of this step and later ones, which will be done again."""
        self.close()
        self._first = step
        if self.path.exists():
            _truncate(self.path, step)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._writer is not None:
            self._writer.close()
        self._file = self._writer = None

    def _show(self, step: int, line: Mapping[str, float | None]) -> None:
        if self._board is None:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._board), purge_step=self._first)
        for name, value in line.items():
            if value is not None:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()  # the writer buffers for two minutes, and a kill would lose steps that are not repeated


def read_metrics(path: Path) -> list[MetricsLine]:
    """The lines of a file of metrics, or of the one in a folder; a last line that a kill cut off is left out."""
    file = path / FILE if path.is_dir() else path
    try:
        text = file.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise OffleashError(f"{file} cannot be read ({error.strerror}). Give the folder of a training run.") from None
    written = text.splitlines()
    lines = [_line(line) for line in written]
    if lines and lines[-1] is None:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if line is None:
            raise OffleashError(
                f"Line {number} of {file} is not a line of metrics: {written[number - 1][:80]!r}. "
                "Delete that line, or move the file away to start a new one."
            )
    return [line for line in lines if line is not None]


def _tensorboard_note() -> str:
    """What to install, or nothing if TensorBoard is installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        return "TensorBoard is not installed (pip install tensorboard); the metrics are in metrics.jsonl."
    return ""


def _truncate(file: Path, step: int | None) -> None:
    """Rewrite the file without the lines of this step and later ones, and without a half-written last one."""
    kept = [line for line in read_metrics(file) if step is None or (line["step"] or 0) < step]
    text = "".join(json.dumps(line) + "\n" for line in kept)
    temporary = file.with_name(f".{file.name}.writing")
    try:
        if file.read_bytes() == text.encode():
            return
        with temporary.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(file)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OffleashError(
            f"{file} could not be written ({error.strerror or error}). Free some disk space, then run again."
        ) from None


def _line(text: str) -> MetricsLine | None:
    """The values of a line; None where it holds something else."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not isinstance(values.get("step"), int):
        return None
    return values if all(value is None or isinstance(value, int | float) for value in values.values()) else None
