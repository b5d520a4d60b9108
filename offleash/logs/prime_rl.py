"""prime-rl (Prime Intellect): `traces.jsonl` under rollouts/step_N/{train,eval}/{all,effective}, one rollout per row.

Rows are those of verifiers (logs/verifiers.py) with `group.id` and, in `run.work`, the `type` (train or eval) and the
`step`; in older versions a row is the trace itself (`task`, `nodes`, `rewards`), with `run.type` and `run.step`. Traps:

* `task.key` names the content of a task in every run; ids and positions do not.
* `effective` holds those rollouts of `all` that were trained on, once more: `skip` leaves it out beside `all`.
* Newer versions write one stream, with an index of it in a file beside it, which has rewards but is no log.
* Rewards are weighted sums: --threshold says from where on a sample is correct.
* A rollout that ended in an error of the run, not of the model, is left out. Judges and other agents without a reward
  are not samples; with several rewarded agents there is no single completion, and the row is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text, fields_of, integer_of, text_of
from offleash.logs.contents import contents_of
from offleash.logs.format import Entry, Format, Ids, Log, Options, RolloutFormat, Skip
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import step_in_name, training_log
from offleash.logs.verifiers import (
    TRACES,
    Errors,
    is_training_trace,
    last_call,
    trace_completion,
    trace_facts,
    trace_reward,
)

TRACE = {"task", "nodes", "rewards", "run"}  # of a row that is the trace itself
INDEX = {"line", "offset", "trace_ids", "reward"}


def recognise(head: Head) -> bool:
    """Traces that say for which training step they were made, or their index."""
    has_traces = (set(head.columns) >= TRACES or set(head.columns) >= TRACE) and is_training_trace(head.first)
    return head.container is Container.JSONL and (has_traces or set(head.columns) >= INDEX)


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per rollout; --split-by takes `step` and `kind` (train or eval)."""
    if set(head.columns) >= INDEX:
        return Log("prime_rl", "prime-rl reward", _refuse_index(path))
    errors = Errors(path)

    def expand(row: Row) -> Iterator[Row]:
        yield Row(row.path, row.number, {**row.values, **_work(row)})

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _entry(row, judge, errors)

    log = training_log(
        "prime_rl",
        head,
        options,
        convert,
        "prime-rl reward",
        expand=expand,
        added=("step", "kind"),
        closing=errors.notes,
    )
    log.ids = Ids.PROBLEM if _has_task_name(head.first) else Ids.GROUP
    log.facts |= trace_facts({"traces": [head.first], **head.first})
    return log


def skip(paths: Sequence[Path]) -> dict[Path, Skip]:
    """Files that repeat others: an `effective` whose `all` is among them, and the index of a stream."""
    given = set(paths)
    skipped = {
        path: Skip("its rollouts are a selection of those in all/")
        for path in paths
        if path.parent.name == "effective" and path.parent.parent / "all" / path.name in given
    }
    indices = {path: Skip("it is an index of the rollouts, not a log") for path in paths if path.stem.endswith("index")}
    return skipped | (indices if len(indices) < len(paths) else {})


def _refuse_index(path: Path) -> Iterator[pl.DataFrame]:
    """An index given alone; beside its traces it is left out."""
    raise OffleashError(f"{path} is the index of traces, without their texts. Give the traces, or the folder of both.")
    yield


def _work(row: Row) -> dict[str, object]:
    """Step and kind of the rollout."""
    work = _work_fields(row.values)
    step = work.get("step")
    return {"step": step_in_name(row.path) if step is None else step, "kind": work.get("type")}


def _work_fields(values: Mapping[str, object]) -> Mapping[str, object]:
    run = fields_of(values.get("run"))
    return fields_of(run.get("work")) or run


def _is_evaluation(path: Path, values: Mapping[str, object]) -> bool:
    return _work_fields(values).get("type") == "eval"


def _has_task_name(values: Mapping[str, object]) -> bool:
    """Whether the task has a name of its own; without one only `group.id` keeps equal prompts apart."""
    task = fields_of(values.get("task"))
    data = fields_of(task.get("data"))
    return any(text_of(value) is not None for value in (task.get("key"), data.get("id"), data.get("idx")))


def _entry(row: Row, judge: VerdictReader, errors: Errors) -> Iterator[Entry]:
    traces = [fields_of(trace) for trace in row.items("traces")] if "traces" in row.values else [row.values]
    rewarded = [trace for trace in traces if trace.get("rewards")] or traces
    if row.values.get("errors") or any(trace.get("errors") for trace in rewarded) or not traces:
        return errors.skip_failed(row)
    if len(rewarded) > 1:
        row.wrong(f"it has {len(rewarded)} agents with a reward; only rollouts with a single one can be read")
    trace, task = rewarded[0], row.fields("task")
    about = Row(row.path, row.number, {**fields_of(task.get("data")), "key": task.get("key")})
    question = chat_text(about.values.get("prompt"), "user")
    group = Row(row.path, row.number, {"group.id": row.fields("group").get("id")})
    names = ("id", "key", "idx") if _has_task_name(row.values) else ()
    verdict, score = judge.mark(trace_reward(fields_of(trace.get("rewards"))), row.number)
    entry = Entry(
        problem=about.problem(*names, question=question) if names else group.problem("group.id", question=question),
        question=question,
        gold=about.text("answer"),
        benchmark=_environment(row),
        identity=about.text("key"),
        contents=contents_of(about.values, about.values.get("prompt")),
        text=trace_completion(trace),
        verdict=verdict,
        score=score,
        tokens=integer_of(trace.get("num_output_tokens")),
        finish=text_of(last_call(trace).get("finish_reason")),
        row=row.number,
    )
    return iter([entry])


def _environment(row: Row) -> str | None:
    """The environment, by which prime-rl groups tasks."""
    env = row.fields("env")
    return text_of(env.get("id", env.get("name", row.fields("info").get("env_name"))))


FORMAT = Format(
    "prime_rl",
    "prime-rl rollouts (traces.jsonl)",
    recognise,
    read,
    ("traces.jsonl",),
    skip,
    columns=(TRACES, TRACE),
    rollouts=RolloutFormat(("step",), _is_evaluation),
)
