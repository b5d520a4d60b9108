"""lighteval (Hugging Face): `details_TASK_DATE.parquet` of --save-details, one row per document.

Since 0.10 the columns are `doc` (query, choices, gold_index, id), `model_response` (text, output_tokens) and `metric`;
before, they were `example`, `full_prompt`, `predictions`, `cont_tokens`, `gold` and `metrics`. Traps:

* Metrics are of the document: with several samples (maj@n, pass@k:n) they say nothing of each, which stay unverified.
* One file may have both kinds of rows: before 0.10 a document was logged once per kind of metric, with one sample for
  extractive_match and with 32 for pass@1:32. Every row is judged by its own metrics, whatever the first row has.
* `gold` and `predictions` are lists of one in some versions and plain values in others.
* Old files have no id: a problem is then known by its text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.errors import unknown
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

COLUMNS_SINCE_0_10 = {"doc", "model_response", "metric"}
COLUMNS_BEFORE_0_10 = {"full_prompt", "example", "predictions", "metrics"}
HINT = (
    "lighteval scores each document, not each of its samples: judge them with `compare --verifier NAME`, or run it "
    "with one sample under several seeds and give the files together ('base/**/details_*.parquet')."
)


def recognise(head: Head) -> bool:
    """The columns of either version."""
    return head.container is Container.PARQUET and (
        set(head.columns) >= COLUMNS_SINCE_0_10 or set(head.columns) >= COLUMNS_BEFORE_0_10
    )


def read(path: Path, head: Head, options: Options) -> Log:
    """Entries of either version; the verdict is the metric of --filter, or the first of the row that is a number."""
    new = set(head.columns) >= COLUMNS_SINCE_0_10
    metrics = _Metrics(path, options.filter)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _entries(row, judge, metrics, _entry_since_0_10(row) if new else _entry_before_0_10(row))

    def closing() -> list[Note]:
        used_metrics = list(metrics.rows_by_metric)
        log.verifier = "lighteval" + (f" {used_metrics[0]}" if len(used_metrics) == 1 else "") if used_metrics else None
        log.unverified_hint = "" if used_metrics and not metrics.shared else HINT
        return metrics.notes()

    log = row_log("lighteval", head, options, convert, "lighteval", closing=closing)
    return log


@dataclass
class _Metrics:
    """Which metrics decided, over how many rows; and the rows whose metrics are of several samples."""

    path: Path
    selected: str | None
    rows_by_metric: dict[str, int] = field(default_factory=dict)  # rows by the metric that was their verdict
    names: dict[str, None] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)  # rows by their number of samples, above one

    def verdict_value(self, row: Row, samples: int) -> object:
        """The metric that decides about a row of one sample; None for a row that has none, or several samples."""
        values = row.fields("metric" if "doc" in row.values else "metrics")
        names = [name for name, value in values.items() if isinstance(value, bool | int | float)]
        self.names |= dict.fromkeys(names)
        if samples > 1:
            self.shared[samples] = self.shared.get(samples, 0) + 1
            return None
        metric = self.selected if self.selected is not None else next(iter(names), None)
        if metric is None or metric not in names:
            return None
        self.rows_by_metric[metric] = self.rows_by_metric.get(metric, 0) + 1
        return values[metric]

    def notes(self) -> list[Note]:
        """What decided, known only after the last row; a metric that no row has is refused."""
        if self.selected is not None and self.selected not in self.names:
            raise unknown("metric", self.selected, self.names)
        notes = []
        judged_rows = sum(self.rows_by_metric.values())
        if self.rows_by_metric and self.shared:
            rows = ", ".join(f"{rows} rows with {samples}" for samples, rows in sorted(self.shared.items()))
            text = f"{judged_rows} rows have 1 sample and are judged by their metric; {rows} samples are unverified."
            notes.append(Note(f"{self.path.name}: {text}", sum(self.shared.values())))
        other_names = [name for name in self.names if name not in self.rows_by_metric]
        if len(self.rows_by_metric) > 1:
            counts = ", ".join(f"{name} ({rows} rows)" for name, rows in self.rows_by_metric.items())
            notes.append(Note(f"{self.path.name}: the verdicts are those of {counts} (--filter NAME)."))
        elif self.rows_by_metric and other_names and not self.shared:
            used = next(iter(self.rows_by_metric))
            text = f"the verdict is {used}; also available: {', '.join(other_names)} (--filter NAME)."
            notes.append(Note(f"{self.path.name}: {text}"))
        return notes


def _entries(row: Row, judge: VerdictReader, metrics: _Metrics, about: Entry) -> Iterator[Entry]:
    """One entry per text, with `about` of its document."""
    new = "doc" in row.values
    texts = _texts(row, new)
    tokens = row.fields("model_response").get("output_tokens") if new else row.values.get("cont_tokens")
    # Lists of token ids, one per text. Where their number differs, which is whose is not known.
    lengths = [len(ids) if isinstance(ids, list) else None for ids in tokens] if isinstance(tokens, list) else []
    if not texts:
        judge.no_sample(row.number)
    verdict_value = metrics.verdict_value(row, len(texts)) if texts else None
    for index, text in enumerate(texts):
        entry = about._replace(text=text_of(text), tokens=lengths[index] if len(lengths) == len(texts) else None)
        if len(texts) == 1:
            verdict, score = judge.mark(verdict_value, row.number)
            entry = entry._replace(verdict=verdict, score=score)
        yield entry
    judge.samples_with_shared_verdict += len(texts) if len(texts) > 1 else 0


def _texts(row: Row, new: bool) -> list[object]:
    texts = row.fields("model_response").get("text") if new else row.values.get("predictions")
    if isinstance(texts, str):
        return [texts]
    return texts if isinstance(texts, list) else []


def _entry_since_0_10(row: Row) -> Entry:
    """The document of a row, since 0.10."""
    doc = row.fields("doc")
    question = chat_text(doc.get("query"), "user")
    about = Row(row.path, row.number, doc)
    golds = _golds(doc)
    return Entry(
        problem=about.problem("id", question=question),
        question=question,
        gold=golds[0] if len(golds) == 1 else None,  # a verifier takes one gold answer
        benchmark=about.text("task_name"),
        contents=_contents(doc, golds),
        row=row.number,
    )


def _golds(doc: Mapping[str, object]) -> list[str | None]:
    """The right choices; an index that is not one of them is no gold."""
    choices, index = doc.get("choices"), doc.get("gold_index")
    if not isinstance(choices, list):
        return []
    indices = index if isinstance(index, list) else [index]
    return [text_of(choices[place]) for place in indices if isinstance(place, int) and 0 <= place < len(choices)]


def _contents(doc: Mapping[str, object], golds: list[str | None]) -> str | None:
    """Choices where there is more to choose from than the answers; several answers, any of which is accepted."""
    choices = doc.get("choices")
    has_choices = isinstance(choices, list) and len(choices) > len(golds)
    return content_hashes(
        choices=choices if has_choices else None,
        images=doc.get("images"),
        tests=golds if len(golds) > 1 else None,
    )


def _entry_before_0_10(row: Row) -> Entry:
    """The document of a row, before 0.10. `example` is the question alone, `full_prompt` has the shots before it."""
    question = row.text("example") or row.text("full_prompt")
    golds = row.values.get("gold")
    choices = row.values.get("choices")
    gold = golds[0] if isinstance(golds, list) and len(golds) == 1 else golds or None
    return Entry(
        problem=row.problem("id", question=question),
        question=question,
        gold=text_of(gold),
        contents=content_hashes(choices=choices if isinstance(choices, list) and len(choices) > 1 else None),
        row=row.number,
    )


FORMAT = Format(
    "lighteval",
    "lighteval --save-details",
    recognise,
    read,
    ("details_gsm8k|0_2026-01-31T12-00-00.parquet",),
    columns=(COLUMNS_SINCE_0_10, COLUMNS_BEFORE_0_10),
)
