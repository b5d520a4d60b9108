"""verifiers (Prime Intellect): `results.jsonl` (up to 0.1) and `traces.jsonl` (since 0.2), one row per rollout.

`results.jsonl` has `example_id`, `prompt` and `completion` (chats), `answer`, `reward`, `error`; `traces.jsonl` has
`task.data`, and in `traces` one object per agent with `nodes` (messages), `rewards` and `calls`. Traps:

* `reward` is a weighted sum of several functions: --threshold says from where on a sample is correct.
* A rollout that ended in an error of the run, not of the model, is left out.
* Traces of several agents have no single completion, and are refused.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from offleash.data.tables import Note
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text, content_text, fields_of, text_of, whole_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

RESULTS = {"example_id", "prompt", "completion", "reward"}
TRACES = {"task", "traces", "ok"}


def recognise(head: Head) -> bool:
    """The fields of either version."""
    return head.container is Container.JSONL and (set(head.columns) >= RESULTS or set(head.columns) >= TRACES)


def read(path: Path, head: Head, options: Options) -> Log:
    """Rollouts of either version; the verdict is the reward against --threshold."""
    errors = _Errors(path)
    traced = set(head.columns) >= TRACES

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _trace_entry(row, judge, errors) if traced else _result(row, judge, errors)

    log = row_log("verifiers", head, options, convert, "verifiers reward", closing=errors.notes)
    log.facts |= _facts(head.first) if traced else {}
    return log


@dataclass
class _Errors:
    """Rollouts that ended in an error of the run, not of the model."""

    path: Path
    count: int = 0
    first: int = 0

    def leave_out(self, row: Row) -> Iterator[Entry]:
        """Count a rollout, and give no entry for it."""
        self.count += 1
        self.first = self.first or row.number
        return iter(())

    def notes(self) -> list[Note]:
        """How many were left out, known only after the last row."""
        if not self.count:
            return []
        what = f"{self.count} rollouts ended in an error (first: row {self.first}) and were left out."
        return [Note(f"{self.path.name}: {what}", self.count, left_out=True)]


def _result(row: Row, judge: VerdictReader, errors: _Errors) -> Iterator[Entry]:
    """The entry of a row of results.jsonl."""
    if row.values.get("error"):
        return errors.leave_out(row)
    question = chat_text(row.values.get("prompt"), "user")
    verdict, score = judge.mark(row.values.get("reward"), row.number)
    entry = Entry(
        problem=row.problem("example_id", question=question),
        question=question,
        gold=row.text("answer"),
        benchmark=row.text("task"),
        text=chat_text(row.values.get("completion"), "assistant"),
        verdict=verdict,
        score=score,
        tokens=whole_of(row.fields("token_usage").get("output_tokens")),
        finish="length" if row.values.get("is_truncated") is True else None,
        row=row.number,
    )
    return iter([entry])


def _trace_entry(row: Row, judge: VerdictReader, errors: _Errors) -> Iterator[Entry]:
    """The entry of a row of traces.jsonl."""
    traces = row.items("traces")
    trace = fields_of(traces[0]) if len(traces) == 1 else {}
    if row.values.get("errors") or trace.get("errors"):
        return errors.leave_out(row)
    if not trace:
        row.wrong(f"it has {len(traces)} agents; only single-agent rollouts can be read")
    data = fields_of(row.fields("task").get("data"))
    question = chat_text(data.get("prompt"), "user")
    about = Row(row.path, row.number, data)
    verdict, score = judge.mark(_reward(fields_of(trace.get("rewards"))), row.number)
    entry = Entry(
        problem=about.problem("id", "idx", question=question),
        question=question,
        gold=about.text("answer"),
        benchmark=text_of(row.fields("env").get("id")),
        text=_completion(trace),
        verdict=verdict,
        score=score,
        tokens=whole_of(trace.get("num_output_tokens")),
        finish=text_of(_last_call(trace).get("finish_reason")),
        row=row.number,
    )
    return iter([entry])


def _reward(rewards: Mapping[str, object]) -> float | None:
    """The weighted sum, as verifiers counts it; nothing when a part was not scored."""
    total = 0.0
    for reward in rewards.values():
        score, weight = fields_of(reward).get("score"), fields_of(reward).get("weight", 1.0)
        if not isinstance(score, int | float) or not isinstance(weight, int | float):
            return None
        total += score * weight
    return total if rewards else None


def _completion(trace: Mapping[str, object]) -> str | None:
    """All that the model wrote, tool results left out."""
    nodes = trace.get("nodes")
    messages = [fields_of(fields_of(node).get("message")) for node in nodes] if isinstance(nodes, list) else []
    texts = [content_text(message.get("content")) for message in messages if message.get("role") == "assistant"]
    return "\n\n".join(texts) if texts else None


def _last_call(trace: Mapping[str, object]) -> Mapping[str, object]:
    calls = trace.get("calls")
    return fields_of(calls[-1]) if isinstance(calls, list) and calls else {}


def _facts(values: Mapping[str, object]) -> dict[str, str]:
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


FORMAT = Format("verifiers", "verifiers rollouts", recognise, read, ("results.jsonl", "traces.jsonl"))
