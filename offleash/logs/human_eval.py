"""human-eval (OpenAI): `samples.jsonl` (task_id, completion), and the `_results.jsonl` of its evaluation.

The evaluation adds `result` (a message) and `passed`; before it, samples have no verdict and get a hint how to get one.
Rows of a task are its samples, in any order. The shortest reader of all: a good one to copy.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.files.detect import Container, Head
from offleash.files.rows import Row
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"task_id", "completion"}
KNOWN_COLUMNS = KEYS | {"result", "passed", "completion_id"}
HINT = (
    "These samples have not been evaluated: run evaluate_functional_correctness and read its _results.jsonl, or run "
    "their tests with `compare --verifier program --problems humaneval`."
)


def recognise(head: Head) -> bool:
    """Only these keys: a table with more is better read by its column names."""
    return head.container is Container.JSONL and KEYS <= set(head.columns) <= KNOWN_COLUMNS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row, verified or not yet."""
    has_verdicts = "passed" in head.columns
    log = row_log("human_eval", head, options, _entries, "human-eval" if has_verdicts else None)
    log.unverified_hint = "" if has_verdicts else HINT
    return log


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    """The entry of a row. `completion` is the body of a function whose head is in the problem, not a program."""
    problem = row.problem("task_id", question=None)
    verdict = judge.mark(row.values["passed"], row.number)[0] if "passed" in row.values else None
    yield Entry(
        problem=problem,
        benchmark=benchmark_of(problem),
        sample=row.integer("completion_id"),
        text=row.text("completion"),
        verdict=verdict,
        row=row.number,
    )


def benchmark_of(task: str) -> str | None:
    """HumanEval/12 is of HumanEval."""
    name, slash, _ = task.rpartition("/")
    return name if slash else None


FORMAT = Format(
    "human_eval",
    "human-eval samples and results",
    recognise,
    read,
    ("samples.jsonl", "samples.jsonl_results.jsonl"),
    columns=(KEYS,),
)
