"""External traces for training: correct answers to problems, as JSONL of {problem, text}."""

import json
from pathlib import Path

from offleash.errors import OffleashError
from offleash.files.lines import FileKind, jsonl_rows
from offleash.files.rows import shown

TRACE_FILE = FileKind(
    description="a file of traces",
    example='{"problem": ..., "text": ...}',
    missing="Traces are a JSONL file of {problem, text}.",
)


def read_traces(path: Path) -> dict[str, list[str]]:
    """The texts of every problem, in the order of the file."""
    texts: dict[str, list[str]] = {}
    for row in jsonl_rows(path, TRACE_FILE):
        problem, text = row.values.get("problem"), row.values.get("text")
        if not isinstance(problem, str) or not isinstance(text, str) or not text.strip():
            raise OffleashError(
                f"{row.where} must be an object with non-empty problem and text; found {shown(dict(row.values))}."
            )
        texts.setdefault(problem, []).append(text)
    return texts


def write_traces(path: Path, traces: dict[str, list[str]]) -> int:
    """Write one line per trace; returns their number."""
    rows = [{"problem": problem, "text": text} for problem, texts in traces.items() for text in texts]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise OffleashError(f"{path} cannot be written ({error.strerror}).") from None
    return len(rows)
