"""Inspect (UK AISI, inspect_ai): `.eval` archives and `.json` logs; epochs are the samples of a problem.

An `.eval` file is a zip: `header.json` (of a finished run) or `_journal/start.json` (of one that was stopped),
`samples/ID_epoch_N.json` with texts, and `summaries.json` with verdicts only. A `.json` log holds all of it in one
object. Traps:

* Newer versions compress members with zstandard, which Python's zipfile does not know before 3.14 (files/detect.py).
* Long texts are moved to `attachments`, and the message holds `attachment://HASH` instead.
* Scores are `C`, `I`, `P` (partial) and `N` (no answer), or numbers; a sample may have several scorers.
* A sample that ended in an error has no score. It is left out: the run failed, not the model.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offleash.data.tables import Note
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.files.detect import Container, Head, members
from offleash.files.lines import document
from offleash.files.rows import Row, chat_text, content_text, fields_of, text_of, whole_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import check_maps, converted
from offleash.logs.own_verdicts import VerdictReader

HEADER, START = "header.json", "_journal/start.json"
SUMMARIES, JOURNAL = "summaries.json", "_journal/summaries/"
MARKS: dict[str, object] = {"P": 0.5, "N": Verdict.UNREAD.value}  # partial credit; no answer in the text
TRUNCATED = ("max_tokens", "model_length")  # stop reasons: the limit of the request, or of the model


def recognise(head: Head) -> bool:
    """An archive with a header, or an object with the fields of one."""
    if head.container is Container.ZIP:
        return HEADER in head.columns or START in head.columns
    return {"version", "status", "eval"} <= set(head.columns) and "task" in fields_of(head.first.get("eval"))


def read(path: Path, head: Head, options: Options) -> Log:
    """One run; the verdict is by the scorer of --filter, or the first one."""
    check_maps("inspect", options, ())
    if options.split_by is not None:
        raise OffleashError(f"{path} is one run of Inspect: it has no column {options.split_by!r} to split by.")
    if head.container is Container.ZIP:
        header = fields_of(next(members(path, [HEADER if HEADER in head.columns else START])))
        rows = _archived(path, head.columns, options)
    else:
        header = fields_of(document(path))
        samples = header.get("samples")
        rows = _numbered(path, samples if isinstance(samples, list) else [])
    log = Log("inspect", "Inspect scorer", iter(()), facts=_facts(header))
    scorers = _Scorers(path, options.filter)
    benchmark = text_of(fields_of(header.get("eval")).get("task"))
    log.frames = converted(
        log, rows, path, options, lambda row, judge: _entries(row, judge, scorers, benchmark), scorers.notes
    )
    if header.get("status") != "success":
        state = text_of(header.get("status")) or "not finished"
        log.notes.append(Note(f"{path.name}: the run has status {state!r}; samples may be missing."))
    return log


@dataclass
class _Scorers:
    """Which scorer decides, and the samples that ended in an error before they were scored."""

    path: Path
    wanted: str | None
    names: dict[str, None] = field(default_factory=dict)
    broken: int = 0
    first_broken: str = ""

    def score(self, scores: Mapping[str, object]) -> Mapping[str, object]:
        """The score that decides. Without --filter, the first scorer of the first scored sample decides for all."""
        self.names |= dict.fromkeys(scores)
        if self.wanted is None and scores:
            self.wanted = next(iter(scores))
        return fields_of(scores.get(self.wanted or ""))

    def leave_out(self, row: Row) -> None:
        """Count a sample without a score."""
        self.broken += 1
        self.first_broken = self.first_broken or f"{row.text('id')} epoch {row.text('epoch')}"

    def notes(self) -> list[Note]:
        """Which scorer decided, known only after the last sample; a scorer that none has is refused."""
        if self.wanted is not None and self.names and self.wanted not in self.names:
            raise unknown("scorer", self.wanted, self.names)
        notes = []
        if len(self.names) > 1:
            others = ", ".join(name for name in self.names if name != self.wanted)
            notes.append(
                Note(
                    f"{self.path.name}: verdicts are those of {self.wanted}; also available: {others} (--filter NAME)."
                )
            )
        if self.broken:
            what = f"{self.broken} samples ended in an error (first: {self.first_broken}) and were left out."
            notes.append(Note(f"{self.path.name}: {what}", self.broken, left_out=True))
        return notes


def _archived(path: Path, names: tuple[str, ...], options: Options) -> Iterator[Row]:
    """The samples of an archive; for verdicts alone its summaries, which are one small file."""
    if options.texts:
        samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        yield from _numbered(path, members(path, samples))
        return
    parts = [SUMMARIES] if SUMMARIES in names else [name for name in names if name.startswith(JOURNAL)]
    lists = (part for part in members(path, parts) if isinstance(part, list))
    yield from _numbered(path, (summary for part in lists for summary in part))


def _numbered(path: Path, samples: Iterable[object]) -> Iterator[Row]:
    for number, sample in enumerate(samples, 1):
        yield Row(path, number, fields_of(sample))


def _entries(row: Row, judge: VerdictReader, scorers: _Scorers, benchmark: str | None) -> Iterator[Entry]:
    """The entry of a sample; none where the run failed before scoring it."""
    scores = row.fields("scores")
    if row.values.get("error") and not scores:
        scorers.leave_out(row)
        return
    score = scorers.score(scores)
    value = score.get("value")
    verdict, graded = judge.mark(MARKS.get(value, value) if isinstance(value, str) else value, row.number)
    question = chat_text(row.values.get("input"), "user")
    output = row.fields("output")
    stop = text_of(_choice(output).get("stop_reason"))
    yield Entry(
        problem=row.problem("id", question=question),
        question=question,
        gold=row.text("target"),
        benchmark=benchmark,
        sample=row.whole("epoch"),
        text=_completion(output, row.fields("attachments")),
        answer=text_of(score.get("answer")),
        verdict=verdict,
        score=graded,
        tokens=whole_of(fields_of(output.get("usage")).get("output_tokens")),
        finish="length" if stop in TRUNCATED else stop,
        row=row.number,
    )


def _choice(output: Mapping[str, object]) -> Mapping[str, object]:
    choices = output.get("choices")
    return fields_of(choices[0]) if isinstance(choices, list) and choices else {}


def _completion(output: Mapping[str, object], attachments: Mapping[str, object]) -> str | None:
    """The text of a sample; None in a summary, which has no output."""
    if not output:
        return None
    message = fields_of(_choice(output).get("message"))
    text = content_text(message.get("content")) if message else text_of(output.get("completion")) or ""
    key = text.removeprefix("attachment://")
    return text if key == text else text_of(attachments.get(key)) or text


def _facts(header: Mapping[str, object]) -> dict[str, str]:
    """Model, version and decoding, as the header states them."""
    about = fields_of(header.get("eval"))
    packages = fields_of(about.get("packages"))
    settings = fields_of(fields_of(header.get("plan")).get("config"))
    facts = {
        "model": text_of(about.get("model")),
        "tool": f"inspect_ai {packages['inspect_ai']}" if "inspect_ai" in packages else None,
        "decoding": json.dumps(settings, sort_keys=True) if settings else None,
    }
    return {name: value for name, value in facts.items() if value}


FORMAT = Format("inspect", "Inspect logs, .eval and .json", recognise, read, ("task_id.eval", "task_id.json"))
