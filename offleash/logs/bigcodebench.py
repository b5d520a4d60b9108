"""BigCodeBench: `SAMPLES_eval_results.json` of `bigcodebench.evaluate`, one object for all tasks.

`eval` maps each task ("BigCodeBench/13") to its samples, in their order: `task_id`, `solution`, `status` ("pass",
"fail" or "timeout") and `details` (which tests failed, and how). Traps:

* The shape is that of EvalPlus; the status is `status` here, and `base_status` there.
* A calibrated evaluation writes the head of the function before each solution: the text is the program that was run.
* Neither the prompt nor the tests are in the file: a task is known by its id alone.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.errors import OffleashError
from offleash.files.detect import Head
from offleash.files.rows import Row, fields_of
from offleash.logs.evalplus import sample_rows
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import check_maps, converted
from offleash.logs.human_eval import benchmark_of
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"solution", "status"}
TOO_SLOW = "timeout"  # a program that is too slow is wrong, as BigCodeBench counts it


def recognise(head: Head) -> bool:
    """The fields of the samples of the first task."""
    samples = next(iter(fields_of(head.first.get("eval")).values()), None)
    return isinstance(samples, list) and bool(samples) and all(fields_of(sample).keys() >= KEYS for sample in samples)


def read(path: Path, head: Head, options: Options) -> Log:
    """The samples of every task; the verdict is the status."""
    check_maps("bigcodebench", options, ())
    if options.split_by is not None:
        raise OffleashError(
            f"{path} holds a single BigCodeBench run and has no column {options.split_by!r} to split by. "
            "Leave out --split-by."
        )
    log = Log("bigcodebench", "BigCodeBench tests", iter(()))
    log.frames = converted(log, sample_rows(path), path, options, _entries)
    return log


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    problem = row.problem("task_id", question=None)
    status = row.values.get("status")
    verdict, _ = judge.mark(False if status == TOO_SLOW else status, row.number)
    yield Entry(
        problem=problem,
        benchmark=benchmark_of(problem),
        sample=row.integer("index"),
        text=row.text("solution"),
        verdict=verdict,
        row=row.number,
    )


FORMAT = Format(
    "bigcodebench",
    "BigCodeBench eval_results.json",
    recognise,
    read,
    ("samples_eval_results.json",),
    columns=({"eval"},),
)
