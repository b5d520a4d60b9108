"""verifiers (Prime Intellect): `results.jsonl` (up to 0.1) and `traces.jsonl` (since 0.2), one row per rollout.

`results.jsonl` has `example_id`, `prompt` and `completion` (chats), `answer`, `info`, `reward`, `error`; `traces.jsonl`
has `task.data`, and in `traces` one object per agent with `nodes` (messages), `rewards` and `calls`. Traps:

* Before 0.1.6 there was `id` in place of `example_id`, and it is wrong: the dataset was drawn from over and over
  (a, b, a, b), while ids were given as if each problem's rollouts followed each other (0, 0, 1, 1). There a problem is
  known by its prompt, answer and info alone.
* `example_id` is the position in the dataset: it keeps problems apart within a run, and says nothing of another run.
* `reward` is a weighted sum of several functions: --threshold says from where on a sample is correct.
* A rollout that ended in an error of the run, not of the model, is left out.
* Traces of several agents have no single completion, and are refused.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offleash.data.tables import Note
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text, content_text, fields_of, integer_of, text_of
from offleash.logs.contents import contents_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

RESULTS = {"prompt", "completion", "reward"}  # and `example_id`, or `id` and `task`
TRACES = {"task", "traces", "ok"}


def recognise(head: Head) -> bool:
    """The fields of either version."""
    columns = set(head.columns)
    has_task = "example_id" in columns or {"id", "task"} <= columns  # `id` alone is anybody's table
    has_traces = columns >= TRACES and not is_training_trace(head.first)
    return head.container is Container.JSONL and (has_traces or (columns >= RESULTS and has_task))


def is_training_trace(values: Mapping[str, object]) -> bool:
    """Whether a trace was made in training: prime-rl says for which step, in `run.work` or, before, in `run`."""
    run = fields_of(values.get("run"))
    return isinstance(run.get("work"), dict) or run.get("type") == "train" or "step" in run


def read(path: Path, head: Head, options: Options) -> Log:
    """Rollouts of either version; the verdict is the reward against --threshold."""
    errors = Errors(path)
    has_traces = set(head.columns) >= TRACES

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _trace_entry(row, judge, errors) if has_traces else _result(row, judge, errors)

    log = row_log("verifiers", head, options, convert, "verifiers reward", closing=errors.notes)
    log.facts |= trace_facts(head.first) if has_traces else {}
    return log


@dataclass
class Errors:
    """Rollouts that ended in an error of the run, not of the model."""

    path: Path
    count: int = 0
    first: int = 0

    def skip_failed(self, row: Row) -> Iterator[Entry]:
        """Count a rollout, and give no entry for it."""
        self.count += 1
        self.first = self.first or row.number
        return iter(())

    def notes(self) -> list[Note]:
        """How many were left out, known only after the last row."""
        if not self.count:
            return []
        errors_note = f"{self.count} rollouts ended in an error (first: row {self.first}) and were left out."
        return [Note(f"{self.path.name}: {errors_note}", self.count, left_out=True)]


def _result(row: Row, judge: VerdictReader, errors: Errors) -> Iterator[Entry]:
    """The entry of a row of results.jsonl."""
    if row.values.get("error"):
        return errors.skip_failed(row)
    question = chat_text(row.values.get("prompt"), "user")
    verdict, score = judge.mark(row.values.get("reward"), row.number)
    entry = Entry(
        problem=row.problem("example_id", question=question),
        question=question,
        gold=row.text("answer"),
        benchmark=row.text("task"),
        contents=contents_of(_info(row.values.get("info")), row.values.get("prompt")),
        text=chat_text(row.values.get("completion"), "assistant"),
        verdict=verdict,
        score=score,
        tokens=integer_of(row.fields("token_usage").get("output_tokens")),
        finish="length" if row.values.get("is_truncated") is True else None,
        row=row.number,
    )
    return iter([entry])


def _trace_entry(row: Row, judge: VerdictReader, errors: Errors) -> Iterator[Entry]:
    """The entry of a row of traces.jsonl."""
    traces = row.items("traces")
    trace = fields_of(traces[0]) if len(traces) == 1 else {}
    if row.values.get("errors") or trace.get("errors"):
        return errors.skip_failed(row)
    if not trace:
        row.wrong(f"it has {len(traces)} agents; only single-agent rollouts can be read")
    data = fields_of(row.fields("task").get("data"))
    question = chat_text(data.get("prompt"), "user")
    about = Row(row.path, row.number, data)
    verdict, score = judge.mark(trace_reward(fields_of(trace.get("rewards"))), row.number)
    entry = Entry(
        problem=about.problem("id", "idx", question=question),
        question=question,
        gold=about.text("answer"),
        benchmark=text_of(row.fields("env").get("id")),
        identity=text_of(row.fields("task").get("key")),
        contents=contents_of({**_info(data.get("info")), **data}, data.get("prompt")),
        text=trace_completion(trace),
        verdict=verdict,
        score=score,
        tokens=integer_of(trace.get("num_output_tokens")),
        finish=text_of(last_call(trace).get("finish_reason")),
        row=row.number,
    )
    return iter([entry])


def _info(info: object) -> Mapping[str, object]:
    """The environment's own data on a problem: an object, or the JSON of one, since a dataset's column has one type."""
    if isinstance(info, str):
        with suppress(ValueError, RecursionError):
            info = json.loads(info)
    return fields_of(info)


def trace_reward(rewards: Mapping[str, object]) -> float | None:
    """The weighted sum, as verifiers counts it; nothing when a part was not scored."""
    total = 0.0
    for reward in rewards.values():
        score, weight = fields_of(reward).get("score"), fields_of(reward).get("weight", 1.0)
        if not isinstance(score, int | float) or not isinstance(weight, int | float):
            return None
        total += score * weight
    return total if rewards else None


def trace_completion(trace: Mapping[str, object]) -> str | None:
    """All that the model wrote, tool results left out."""
    nodes = trace.get("nodes")
    messages = [fields_of(fields_of(node).get("message")) for node in nodes] if isinstance(nodes, list) else []
    texts = [content_text(message.get("content")) for message in messages if message.get("role") == "assistant"]
    return "\n\n".join(texts) if texts else None


def last_call(trace: Mapping[str, object]) -> Mapping[str, object]:
    calls = trace.get("calls")
    return fields_of(calls[-1]) if isinstance(calls, list) and calls else {}


def trace_facts(values: Mapping[str, object]) -> dict[str, str]:
    """Model, version and decoding, as the first row states them."""
    traces = values.get("traces")
    trace = fields_of(traces[0]) if isinstance(traces, list) and traces else {}
    config = fields_of(fields_of(trace.get("agent")).get("config"))
    sampling = {name: value for name, value in fields_of(config.get("sampling")).items() if value is not None}
    facts = {
        "model": text_of(config.get("model")),
        "tool": f"verifiers {text_of(fields_of(trace.get('verifiers')).get('version')) or ''}".strip(),
        "decoding": json.dumps(sampling, sort_keys=True) if sampling else None,
    }
    return {name: value for name, value in facts.items() if value}


FORMAT = Format(
    "verifiers",
    "verifiers rollouts",
    recognise,
    read,
    ("results.jsonl", "traces.jsonl"),
    columns=(RESULTS | {"example_id"}, TRACES),
)
