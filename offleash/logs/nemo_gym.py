"""NeMo Gym (NVIDIA): the rollouts of `ng_collect_rollouts` and `gym eval run`, JSONL, one row per rollout.

Fields: `responses_create_params` (the request, whose `input` is a text or messages), `response` (of the Responses API:
`output`, `usage`), `reward`, `_ng_task_index` and `_ng_rollout_index`, `agent_ref`, and whatever the resources server
keeps of the task, such as `expected_answer`, `options` or `verifier_metadata`. Traps:

* Rows are written as rollouts end, in no order; `_ng_task_index` is the number of the row in the input file, and equal
  rows have one number. Older versions wrote no number: a problem is then known by its text and gold answer.
* `output` holds reasoning, tool calls and their results beside messages; the text is that of the assistant's messages.
* `reward` may be a fraction: --threshold says from where on a sample is correct.
* Rollouts in which the run failed are in a file of their own, `*_failures.jsonl`, with `_ng_failure_class`: no samples.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from offleash.data.tables import Note
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text, content_text, fields_of, integer_of, text_of
from offleash.logs.contents import contents_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"response", "reward"}  # and the request or the task's number
TASK, ROLLOUT, FAILURE = "_ng_task_index", "_ng_rollout_index", "_ng_failure_class"
GOLDS = ("expected_answer", "ground_truth", "answer", "label")
DECODING = ("temperature", "top_p", "max_output_tokens")


def recognise(head: Head) -> bool:
    """The response and the reward, with the request or its number; the file of failures has no samples."""
    columns = set(head.columns)
    has_task = bool(columns & {"responses_create_params", TASK})
    return head.container is Container.JSONL and columns >= KEYS and has_task and FAILURE not in columns


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is the reward, or the field that --map verdict=NAME gives."""
    reward = options.columns.get("verdict", "reward")
    failures = _Failures(path)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        if row.values.get(FAILURE):
            failures.count += 1
            return iter(())
        return iter([_entry(row, judge, reward)])

    log = row_log("nemo_gym", head, options, convert, f"NeMo Gym {reward}", maps=("verdict",), closing=failures.notes)
    log.facts |= _facts(fields_of(head.first.get("response")))
    return log


@dataclass
class _Failures:
    """Rollouts that ended in an error of the run, not of the model."""

    path: Path
    count: int = 0

    def notes(self) -> list[Note]:
        """How many were left out, known only after the last row."""
        if not self.count:
            return []
        text = f"{self.path.name}: {self.count} rollouts failed ({FAILURE}) and were left out."
        return [Note(text, self.count, left_out=True)]


def _entry(row: Row, judge: VerdictReader, reward: str) -> Entry:
    request, response = row.fields("responses_create_params"), row.fields("response")
    question = chat_text(request.get("input"), "user")
    task = {**row.fields("verifier_metadata"), **row.values}  # servers keep the task in either
    verdict, score = judge.mark(row.values.get(reward), row.number)
    return Entry(
        problem=row.problem(TASK, "uuid", question=question),
        question=question,
        gold=Row(row.path, row.number, task).text(*GOLDS),
        benchmark=text_of(row.fields("agent_ref").get("name")),
        contents=contents_of(task, request.get("input")),
        sample=integer_of(row.values.get(ROLLOUT)),
        text=_text(response),
        answer=row.text("extracted_answer"),
        verdict=verdict,
        score=score,
        tokens=integer_of(fields_of(response.get("usage")).get("output_tokens")),
        finish=_finish(response),
        row=row.number,
    )


def _text(response: Mapping[str, object]) -> str | None:
    """All that the model wrote as messages; None where the response keeps none."""
    output = response.get("output")
    messages = [fields_of(item) for item in output] if isinstance(output, list) else []
    texts = [content_text(message.get("content")) for message in messages if message.get("role") == "assistant"]
    return "\n\n".join(texts) if texts else text_of(response.get("output_text"))


def _finish(response: Mapping[str, object]) -> str | None:
    reason = text_of(fields_of(response.get("incomplete_details")).get("reason"))
    return "length" if reason == "max_output_tokens" else reason


def _facts(response: Mapping[str, object]) -> dict[str, str]:
    """Model and decoding, as the first response states them."""
    settings = {name: response[name] for name in DECODING if response.get(name) is not None}
    facts = {
        "model": text_of(response.get("model")),
        "decoding": json.dumps(settings, sort_keys=True, default=str) if settings else None,
    }
    return {name: value for name, value in facts.items() if value}


FORMAT = Format("nemo_gym", "NeMo Gym rollouts", recognise, read, ("rollouts.jsonl",), columns=(KEYS | {TASK},))
