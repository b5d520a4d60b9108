"""lm-evaluation-harness (EleutherAI, 0.4): `samples_TASK_DATE.jsonl` of --log_samples, one row per document and filter.

Fields: `doc_id` (the problem), `doc` (its own text), `resps` (the completions), `filtered_resps` (extracted answers),
`target`, `filter`, and the metrics by name. Traps:

* Rows repeat once per filter (strict-match, flexible-extract): reading all of them would count each sample twice.
* Metrics are of the document. With `repeats` above 1 they say nothing of a single completion: these stay unverified.
* Multiple choice has no completion: `resps` are log-likelihoods of the choices, and the greedy pick is the one sample.
* `doc_id` is a position. What a document is says `doc_hash`, the SHA-256 of its JSON, which is the same under another
  prompt template; tasks may hold a document twice, so the n-th with a hash is the n-th in every other run.
* The question of a document may be one sentence for all of them ("Who is the murderer?"), its story another field.
* The names of the metrics are listed in `metrics` only since 0.4.3, and `arguments` was a list before 0.4.2.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.errors import unknown
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, fields_of, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"doc_id", "doc", "resps", "filtered_resps"}
# Fields of a row that are not metrics, for logs from before 0.4.3.
NON_METRIC_FIELDS = KEYS | {
    "target",
    "arguments",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "task",
    "task_name",
}
# A prompt in `arguments` holds the chat template of one model; the document's own text is the same for two models.
QUESTIONS = ("question", "problem", "query", "prompt", "input", "problem_statement", "instruction", "text", "ctx")
CHOICES = ("choices", "options", "endings", "answer_choices")
HINT = (
    "lm-eval scores each document, not each of its repeats: judge them with `compare --verifier NAME`, or run it with "
    "`repeats: 1` under several --seed and give the files together ('base/samples_TASK_*.jsonl')."
)


def recognise(head: Head) -> bool:
    """Four fields that only this harness writes together."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """Samples by one filter (default: the first row's) and the verdict by one metric (default: the first)."""
    documents = _Documents()
    filters = _Filters(options.filter or text_of(head.first.get("filter")), path)
    # Not every version names the task in its rows; the file's name has it.
    task = re.match(r"samples_(.+)_\d{4}-\d\d-\d\dT", path.name)
    names = [options.columns["verdict"]] if "verdict" in options.columns else _metrics(head.first)
    metric = names[0] if names else None

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        if not filters.takes(row):
            return iter(())
        return _entries(row, judge, row.text("task", "task_name") or (task and task.group(1)), metric, documents)

    log = row_log("lm_eval", head, options, convert, "lm-eval", maps=("verdict",), closing=filters.notes)
    if len(names) > 1:
        other_metrics = ", ".join(names[1:])
        log.notes.append(
            Note(f"{path.name}: the verdict is {metric}; also available: {other_metrics} (--map verdict=NAME).")
        )
    decoding = _decoding(head.first)
    log.facts |= {"decoding": decoding} if decoding else {}
    if metric is None or len(_texts(head.first)) > 1:
        log.verifier, log.unverified_hint = None, HINT
    return log


@dataclass
class _Filters:
    """Rows repeat for every filter: one of them is taken, the others are counted."""

    selected: str | None
    path: Path
    seen: dict[str, int] = field(default_factory=dict)

    def takes(self, row: Row) -> bool:
        """Whether the row is of the filter that decides; every row is counted under its filter."""
        name = row.text("filter") or "none"
        self.seen[name] = self.seen.get(name, 0) + 1
        return name == (self.selected or "none")

    def notes(self) -> list[Note]:
        """Which filter was read, known only after the last row; a filter that no row has is refused."""
        selected_name = self.selected or "none"
        if selected_name not in self.seen:
            raise unknown("filter", selected_name, self.seen)
        other_filters = [name for name in self.seen if name != selected_name]
        if not other_filters:
            return []
        text = (
            f"{self.path.name}: read with filter {selected_name!r}; the same samples are also available with "
            f"{', '.join(other_filters)}"
        )
        return [Note(f"{text} (--filter NAME).", sum(self.seen[name] for name in other_filters))]


@dataclass
class _Documents:
    """The documents of one file by their hashes: a task may hold one twice."""

    seen: dict[tuple[str | None, str], dict[str | None, int]] = field(default_factory=dict)

    def identity(self, row: Row, task: str | None) -> str:
        """The hash of the document; with a number from its second occurrence on."""
        name = row.text("doc_hash") or _doc_hash(row.values.get("doc"))
        positions = self.seen.setdefault((task, name), {})
        position = positions.setdefault(
            row.text("doc_id"), len(positions) + 1
        )  # rows of other filters repeat a position
        return name if position == 1 else f"{name}#{position}"


def _doc_hash(doc: object) -> str:
    """The hash that lm-eval writes since 0.4.2, of a log from before."""
    text = json.dumps(doc, indent=2, ensure_ascii=False, default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _entries(
    row: Row, judge: VerdictReader, benchmark: str | None, metric: str | None, documents: _Documents
) -> Iterator[Entry]:
    """One entry per completion; the metric is the verdict only where there is a single one."""
    doc = row.fields("doc")
    fields = {name.lower(): value for name, value in doc.items()}  # GPQA has "Question"
    question = next((value for name in QUESTIONS if (value := text_of(fields.get(name)))), None) or _prompt(row.values)
    choices = next((fields[name] for name in CHOICES if fields.get(name)), None)
    about = Entry(
        problem=row.problem("doc_id", question=question),
        question=question,
        gold=row.text("target"),
        benchmark=benchmark,
        identity=documents.identity(row, benchmark),
        contents=content_hashes(choices=choices),
        row=row.number,
    )
    texts = _texts(row.values)
    if not texts:  # loglikelihood of the choices: one greedy pick, no text
        verdict, score = judge.mark(row.values.get(metric or ""), row.number)
        yield about._replace(verdict=verdict, score=score, guess=1 / max(1, len(row.items("resps"))))
        return
    answers = _answers(row, len(texts))
    for text, answer in zip(texts, answers, strict=True):
        entry = about._replace(text=text, answer=answer)
        if len(texts) == 1 and metric is not None:
            verdict, score = judge.mark(row.values.get(metric), row.number)
            entry = entry._replace(verdict=verdict, score=score)
        yield entry
    judge.samples_with_shared_verdict += len(texts) if len(texts) > 1 else 0


def _texts(values: Mapping[str, object]) -> list[str]:
    """The repeats of a generated document; none for a document scored by the likelihood of its choices."""
    resps = values.get("resps")
    first = resps[0] if isinstance(resps, list) and len(resps) == 1 else None
    if isinstance(first, str):
        return [first]
    return [text for text in first if isinstance(text, str)] if isinstance(first, list) else []


def _answers(row: Row, count: int) -> list[str | None]:
    """The extracted answer of each completion; a filter such as majority vote leaves fewer, which fit to none."""
    filtered_responses = row.values.get("filtered_resps")
    if (
        isinstance(filtered_responses, list)
        and len(filtered_responses) == 1
        and isinstance(filtered_responses[0], list)
    ):
        filtered_responses = filtered_responses[0]
    if isinstance(filtered_responses, list) and len(filtered_responses) == count:
        return [text_of(answer) for answer in filtered_responses]
    return [None] * count


def _metrics(values: Mapping[str, object]) -> list[str]:
    """Names of the row's metrics; before 0.4.3 they were not listed, only there."""
    listed_metrics = values.get("metrics")
    names = (
        [str(name) for name in listed_metrics]
        if isinstance(listed_metrics, list)
        else [name for name in values if name not in NON_METRIC_FIELDS]
    )
    return [name for name in names if isinstance(values.get(name), bool | int | float)]


def _arguments(values: Mapping[str, object]) -> tuple[object, object]:
    """Prompt and decoding of the first request."""
    arguments = values.get("arguments")
    if isinstance(arguments, list) and arguments and isinstance(arguments[0], list):  # before 0.4.2
        return (*arguments[0], None, None)[:2]
    first = fields_of(fields_of(arguments).get("gen_args_0"))
    return first.get("arg_0"), first.get("arg_1")


def _prompt(values: Mapping[str, object]) -> str | None:
    return text_of(_arguments(values)[0])


def _decoding(values: Mapping[str, object]) -> str:
    settings = fields_of(_arguments(values)[1])
    if not settings and not _texts(values):  # the likeliest choice is taken: nothing is sampled
        return json.dumps({"do_sample": False})
    return json.dumps(settings, sort_keys=True) if settings else ""


FORMAT = Format(
    "lm_eval",
    "lm-evaluation-harness --log_samples",
    recognise,
    read,
    ("samples_gsm8k_2026-01-31T12-00-00.jsonl",),
    columns=(KEYS,),
)
