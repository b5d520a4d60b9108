"""lighteval (Hugging Face): `details_TASK_DATE.parquet` of --save-details, one row per document.

Since 0.10 the columns are `doc` (query, choices, gold_index, id), `model_response` (text, output_tokens) and `metric`;
before, they were `example`, `full_prompt`, `predictions`, `cont_tokens`, `gold` and `metrics`. Traps:

* Metrics are of the document: with several samples (maj@n, pass@k:n) they say nothing of each, which stay unverified.
* `gold` and `predictions` are lists of one in some versions and plain values in others.
* Old files have no id: a problem is then known by its text.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from offleash.data.tables import Note
from offleash.errors import unknown
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text, fields_of, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

NEW = {"doc", "model_response", "metric"}
OLD = {"full_prompt", "example", "predictions", "metrics"}
HINT = (
    "lighteval scores each document, not each of its samples: judge them with --verifier math; "
    "or run it with one sample under several seeds and merge the "
    "files, as in `offleash compare 'base/**/details_*.parquet' 'rl/**/details_*.parquet'`."
)


def recognise(head: Head) -> bool:
    """The columns of either version."""
    return head.container is Container.PARQUET and (set(head.columns) >= NEW or set(head.columns) >= OLD)


def read(path: Path, head: Head, options: Options) -> Log:
    """Entries of either version; the verdict is the metric of --filter, or the first that is a number."""
    new = set(head.columns) >= NEW
    metrics = fields_of(head.first.get("metric" if new else "metrics"))
    names = [name for name, value in metrics.items() if isinstance(value, bool | int | float)]
    if options.filter is not None and options.filter not in names:
        raise unknown("metric", options.filter, names)
    metric = options.filter or (names[0] if names else None)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _entries(row, judge, metric, _new(row) if new else _old(row))

    log = row_log("lighteval", head, options, convert, f"lighteval {metric}" if metric else None)
    first = Row(path, 1, head.first)
    if metric is None or len(_texts(first, new)) > 1:
        log.verifier, log.unverified_hint = None, HINT
    elif len(names) > 1:
        others = ", ".join(name for name in names if name != metric)
        log.notes.append(Note(f"{path.name}: the verdict is {metric}; also available: {others} (--filter NAME)."))
    return log


def _entries(row: Row, judge: VerdictReader, metric: str | None, about: Entry) -> Iterator[Entry]:
    """One entry per text, with `about` of its document."""
    new = "doc" in row.values
    texts = _texts(row, new)
    tokens = row.fields("model_response").get("output_tokens") if new else row.values.get("cont_tokens")
    # Lists of token ids, one per text. Where their number differs, which is whose is not known.
    lengths = [len(ids) if isinstance(ids, list) else None for ids in tokens] if isinstance(tokens, list) else []
    if not texts:
        judge.no_sample(row.number)
    for index, text in enumerate(texts):
        entry = about._replace(text=text_of(text), tokens=lengths[index] if len(lengths) == len(texts) else None)
        if len(texts) == 1 and metric is not None:
            verdict, score = judge.mark(row.fields("metric" if new else "metrics").get(metric), row.number)
            entry = entry._replace(verdict=verdict, score=score)
        yield entry
    judge.shared += len(texts) if len(texts) > 1 else 0


def _texts(row: Row, new: bool) -> list[object]:
    texts = row.fields("model_response").get("text") if new else row.values.get("predictions")
    if isinstance(texts, str):
        return [texts]
    return texts if isinstance(texts, list) else []


def _new(row: Row) -> Entry:
    """The document of a row, since 0.10."""
    doc = row.fields("doc")
    question = chat_text(doc.get("query"), "user")
    about = Row(row.path, row.number, doc)
    return Entry(
        problem=about.problem("id", question=question),
        question=question,
        gold=_gold(doc),
        benchmark=about.text("task_name"),
        row=row.number,
    )


def _gold(doc: Mapping[str, object]) -> str | None:
    """The right choice; None where several are, since a verifier takes one gold answer."""
    choices, index = doc.get("choices"), doc.get("gold_index")
    if isinstance(index, list) and len(index) == 1:
        index = index[0]
    if isinstance(choices, list) and isinstance(index, int) and 0 <= index < len(choices):
        return text_of(choices[index])
    return None


def _old(row: Row) -> Entry:
    """The document of a row, before 0.10. `example` is the question alone, `full_prompt` has the shots before it."""
    question = row.text("example") or row.text("full_prompt")
    golds = row.values.get("gold")
    gold = golds[0] if isinstance(golds, list) and len(golds) == 1 else golds or None
    return Entry(problem=row.problem("id", question=question), question=question, gold=text_of(gold), row=row.number)


FORMAT = Format(
    "lighteval", "lighteval --save-details", recognise, read, ("details_gsm8k|0_2026-01-31T12-00-00.parquet",)
)
