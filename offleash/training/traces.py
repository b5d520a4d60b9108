"""External traces for training: correct answers to problems, as JSONL of {problem, text}."""

import json
from pathlib import Path

from offleash.errors import OffleashError


def read_traces(path: Path) -> dict[str, list[str]]:
    """The texts of every problem, in the order of the file."""
    found: dict[str, list[str]] = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    problem, text = _pair(line, f"line {number} of {path}")
                    found.setdefault(problem, []).append(text)
    except FileNotFoundError:
        raise OffleashError(f"There is no file of traces {path}; it is a JSONL of {{problem, text}}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OffleashError(f"{path} cannot be read ({error}).") from None
    if not found:
        raise OffleashError(f"{path} holds no trace; every line is an object with problem and text.")
    return found


def write_traces(path: Path, traces: dict[str, list[str]]) -> int:
    """Write texts of problems, a line each; how many there are."""
    rows = [{"problem": problem, "text": text} for problem, texts in traces.items() for text in texts]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise OffleashError(f"{path} cannot be written ({error.strerror}).") from None
    return len(rows)


def _pair(line: str, where: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # brackets in brackets, thousands deep
        raise OffleashError(f"{where} is no JSON: {line.strip()[:60]!r}.") from None
    problem, text = (row.get("problem"), row.get("text")) if isinstance(row, dict) else (None, None)
    if not isinstance(problem, str) or not isinstance(text, str) or not text.strip():
        raise OffleashError(f"{where} must be an object with problem and text, both not empty; found {line[:60]!r}.")
    return problem, text
