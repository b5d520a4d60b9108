"""EvalPlus: `samples.jsonl` (task_id, solution), and the `eval_results.json` of its evaluation.

The results are one object: `eval` maps each task to its samples, with `base_status` (the original tests) and
`plus_status` (the added ones), each "pass" (or "success"), "fail" or "timeout". Before 0.2.1 (February 2024) a task was
an object: `nfiles`, and the lists `base` and `plus` with [status, details] of each sample, without its text. Traps:

* Plus tests count only on top of base tests: correct by "plus" means that both sets were passed.
* `plus_status` is null when only base tests were run: then the base tests decide.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from offleash.data.tables import Note
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.files.detect import Container, Head
from offleash.files.lines import document
from offleash.files.rows import Row, fields_of, shown, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import check_maps, converted, row_log
from offleash.logs.human_eval import benchmark_of
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"task_id", "solution"}
KNOWN_COLUMNS = KEYS | {"_identifier", "completion_id", "raw_solution"}  # a table with more is read by its column names
TESTS = ("base", "plus")
HINT = "These samples have not been evaluated: run {tool}.evaluate and read its eval_results.json"
# Our own sets have the base tests of these; by the first part of a task's id.
PROBLEM_SETS = {"HumanEval": "humaneval", "Mbpp": "mbpp"}


def recognise(head: Head) -> bool:
    """Samples by their keys; results by the status of the samples of the first task."""
    if head.container is Container.JSONL and KEYS <= set(head.columns) <= KNOWN_COLUMNS:
        return True
    tasks = fields_of(head.first.get("eval"))
    first = next(iter(tasks.values()), None)
    if isinstance(first, dict):  # before 0.2.1
        return "base" in first and ("nfiles" in first or "files" in first)
    return isinstance(first, list) and all("base_status" in fields_of(sample) for sample in first)


def read(path: Path, head: Head, options: Options) -> Log:
    """Samples without verdicts, or results by the tests of --filter (default: plus where they were run)."""
    if "eval" not in head.columns:
        log = row_log("evalplus", head, options, _sample, None)
        log.unverified_hint = _hint(text_of(head.first.get("task_id")) or "")
        return log
    check_maps("evalplus", options, ())
    if options.split_by is not None:
        raise OffleashError(f"{path} holds a single EvalPlus run and has no column {options.split_by!r} to split by.")
    rows = list(sample_rows(path))
    plus = any(row.values.get("plus_status") for row in rows)
    tests = options.filter or ("plus" if plus else "base")
    if tests not in TESTS:
        raise unknown("test set", tests, TESTS)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        yield _judged_entry(row, tests)

    log = Log("evalplus", f"EvalPlus {tests} tests", iter(()))
    log.frames = converted(log, rows, path, options, convert)
    if plus:
        log.notes.append(Note(f"{path.name}: verdicts are those of the {tests} tests (--filter base or plus)."))
    return log


def _hint(task: str) -> str:
    """How to get verdicts: by the tool whose tasks these are, or by our own copy of its tests."""
    benchmark = task.partition("/")[0]
    hint = HINT.format(tool="bigcodebench" if benchmark == "BigCodeBench" else "evalplus")
    if benchmark not in PROBLEM_SETS:
        return f"{hint}."
    tests = f"`compare --verifier program --problems {PROBLEM_SETS[benchmark]}`"
    return f"{hint}, or run their base tests with {tests}."


def sample_rows(path: Path) -> Iterator[Row]:
    """The samples of all tasks, numbered in the order of the file; the object has no rows of its own."""
    number = 0
    for task, samples in fields_of(fields_of(document(path)).get("eval")).items():
        if isinstance(samples, dict):
            samples = _paired_results(path, task, samples)
        if not isinstance(samples, list):
            raise OffleashError(
                f"{path}: {task} holds {type(samples).__name__}, not a list of samples. Evaluate it again."
            )
        for index, sample in enumerate(samples):
            number += 1
            yield Row(path, number, {"task_id": task, **fields_of(sample), "index": index})


def _paired_results(path: Path, task: str, results: Mapping[str, object]) -> list[dict[str, object]]:
    """The samples of a task as before 0.2.1: the status of each in two lists, of which `plus` may be empty."""
    base, plus = results.get("base"), results.get("plus") or []
    if not isinstance(base, list) or not isinstance(plus, list) or (plus and len(plus) != len(base)):
        counts = ", ".join(
            f"{name} {len(results_of_test) if isinstance(results_of_test, list) else shown(results_of_test)}"
            for name, results_of_test in zip(TESTS, (base, plus), strict=True)
        )
        raise OffleashError(
            f"{path}: the results of {task} are not two lists of the same length: {counts}. Evaluate it again."
        )
    return [
        {"base_status": _status(base[index]), "plus_status": _status(plus[index]) if plus else None}
        for index in range(len(base))
    ]


def _status(result: object) -> object:
    """Of [status, details]; the details are of single tests."""
    return result[0] if isinstance(result, list) and result else result


def _sample(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    problem = row.problem("task_id", question=None)
    yield Entry(problem=problem, benchmark=benchmark_of(problem), text=row.text("solution"), row=row.number)


def _judged_entry(row: Row, tests: str) -> Entry:
    """Correct by the plus tests means by both sets, as EvalPlus counts it. A program that is too slow is wrong."""
    problem = row.problem("task_id", question=None)
    status = [row.text(f"{name}_status") for name in TESTS[: TESTS.index(tests) + 1]]
    known = all(name is not None for name in status)
    has_passed = all(name in ("pass", "success") for name in status)
    return Entry(
        problem=problem,
        benchmark=benchmark_of(problem),
        sample=row.integer("index"),
        text=row.text("solution"),
        verdict=(Verdict.CORRECT if has_passed else Verdict.WRONG) if known else None,
        row=row.number,
    )


FORMAT = Format(
    "evalplus",
    "EvalPlus samples and eval_results.json",
    recognise,
    read,
    ("samples.jsonl", "samples_eval_results.json"),
    columns=(KEYS, {"eval", "hash"}),
)
