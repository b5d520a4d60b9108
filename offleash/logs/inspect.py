"""Inspect (UK AISI, inspect_ai): `.eval` archives and `.json` logs; epochs are the samples of a problem.

An `.eval` file is a zip: `header.json` (of a finished run) or `_journal/start.json` (of one that was stopped),
`samples/ID_epoch_N.json` with texts, and `summaries.json` with verdicts only. A `.json` log holds all of it in one
object. Traps:

* Newer versions compress members with zstandard, which Python's zipfile does not know before 3.14 (files/detect.py).
* Long texts are moved to `attachments`, and the message holds `attachment://HASH` instead.
* Scores are `C`, `I`, `P` (partial) and `N` (no answer), or numbers; a sample may have several scorers.
* A sample that ended in an error has no score. It is left out, and the notes say why: the run failed, not the model.
* A sample that reached a limit (tokens, messages, time) was stopped, and scored as it was: its score counts.
* Summaries leave out images and cut texts off at some thousand characters: such samples are read in full.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.files.detect import Container, Head, members
from offleash.files.lines import document
from offleash.files.rows import Row, chat_text, content_text, fields_of, integer_of, text_of
from offleash.logs.contents import images_in
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import check_maps, converted
from offleash.logs.own_verdicts import VerdictReader

HEADER, JOURNAL_START = "header.json", "_journal/start.json"
SUMMARIES, JOURNAL_SUMMARIES = "summaries.json", "_journal/summaries/"
SCORE_LETTERS: dict[str, object] = {"P": 0.5, "N": Verdict.UNREAD.value}  # partial credit; no answer in the text
TRUNCATING_STOPS = ("max_tokens", "model_length")  # stop reasons: the limit of the request, or of the model
LENGTH_LIMITS = ("token", "context")  # limits of a sample that cut its text off
TRUNCATION_MARK = "(content truncated)"  # in a summary, at the end of a text
ERRORS_SHOWN, ERROR_CHARACTERS = 3, 120  # errors shown: how many, and characters of each


def recognise(head: Head) -> bool:
    """An archive with a header, or an object with the fields of one."""
    if head.container is Container.ZIP:
        return HEADER in head.columns or JOURNAL_START in head.columns
    return {"version", "status", "eval"} <= set(head.columns) and "task" in fields_of(head.first.get("eval"))


def read(path: Path, head: Head, options: Options) -> Log:
    """One run; the verdict is by the scorer of --filter, or the first one."""
    check_maps("inspect", options, ())
    if options.split_by is not None:
        raise OffleashError(f"{path} holds a single Inspect run and has no column {options.split_by!r} to split by.")
    if head.container is Container.ZIP:
        header = fields_of(next(members(path, [HEADER if HEADER in head.columns else JOURNAL_START])))
        rows = _archived_samples(path, head.columns, options)
    else:
        header = fields_of(document(path))
        samples = header.get("samples")
        rows = _numbered_rows(path, samples if isinstance(samples, list) else [])
    log = Log("inspect", "Inspect scorer", iter(()), facts=_facts(header))
    scorers = _Scorers(path, options.filter, _message(header.get("error")))
    benchmark = text_of(fields_of(header.get("eval")).get("task"))
    log.frames = converted(
        log, rows, path, options, lambda row, judge: _entries(row, judge, scorers, benchmark), scorers.notes
    )
    if header.get("status") != "success":
        state = repr(text_of(header.get("status")) or "not finished")
        state += f" ({scorers.run_error})" if scorers.run_error else ""
        log.notes.append(Note(f"{path.name}: the run has status {state}; samples may be missing."))
    return log


@dataclass
class _Scorers:
    """Which scorer decides, the samples that ended in an error before they were scored, and limits reached."""

    path: Path
    selected: str | None
    run_error: str = ""  # the error that ended the run
    names: dict[str, None] = field(default_factory=dict)
    kept: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # samples without a score, by message
    first_broken: str = ""
    limits: Counter[str] = field(default_factory=Counter)

    def score(self, scores: Mapping[str, object]) -> Mapping[str, object]:
        """The score that decides. Without --filter, the first scorer of the first scored sample decides for all."""
        self.kept += 1
        self.names |= dict.fromkeys(scores)
        if self.selected is None and scores:
            self.selected = next(iter(scores))
        return fields_of(scores.get(self.selected or ""))

    def skip_failed(self, row: Row) -> None:
        """Count a sample without a score, by what went wrong."""
        self.errors[_message(row.values.get("error"))] += 1
        self.first_broken = self.first_broken or f"{row.text('id')} epoch {row.text('epoch')}"

    def notes(self) -> list[Note]:
        """What decided and what was left out, known only after the last sample; a scorer that none has is refused."""
        if self.selected is not None and self.names and self.selected not in self.names:
            raise unknown("scorer", self.selected, self.names)
        error_count = sum(self.errors.values())
        if not self.kept and (error_count or self.run_error):
            error_text = (
                f"all {error_count} samples ended in an error: {self._reasons()}" if error_count else self.run_error
            )
            raise OffleashError(
                f"{self.path} has no scored samples: {error_text}. Run it again: inspect eval-retry LOG."
            )
        notes = []
        if len(self.names) > 1:
            other_names = ", ".join(name for name in self.names if name != self.selected)
            notes.append(
                Note(
                    f"{self.path.name}: verdicts are those of {self.selected}; "
                    f"also available: {other_names} (--filter NAME)."
                )
            )
        if error_count:
            error_text = f"{error_count} samples ended in an error (first: {self.first_broken}) and were left out"
            notes.append(Note(f"{self.path.name}: {error_text}: {self._reasons()}.", error_count, left_out=True))
        if self.limits:
            reached = ", ".join(f"{name} {count}" for name, count in self.limits.most_common())
            error_text = (
                f"{self.limits.total()} samples were stopped by a limit of the run ({reached}); their scores count."
            )
            notes.append(Note(f"{self.path.name}: {error_text}", self.limits.total()))
        return notes

    def _reasons(self) -> str:
        """The most frequent messages with their counts."""
        reason_texts = [f"{message} ({count})" for message, count in self.errors.most_common(ERRORS_SHOWN)]
        more_count = len(self.errors) - len(reason_texts)
        return "; ".join(reason_texts) + (f"; and {more_count} other messages" if more_count else "")


def _message(error: object) -> str:
    """The first line of an error, as a sample (an object) or a summary (a text) has it. It may be a repr of Python."""
    text = text_of(fields_of(error).get("message") if isinstance(error, dict) else error) or ""
    line = next((line.strip() for line in re.split(r"[\r\n]|\\n", text) if line.strip()), "")
    return (
        f"{line[: ERROR_CHARACTERS - 3]}..."
        if len(line) > ERROR_CHARACTERS
        else line or ("no message" if error else "")
    )


def _archived_samples(path: Path, names: tuple[str, ...], options: Options) -> Iterator[Row]:
    """The samples of an archive; for verdicts alone its summaries, which are one small file."""
    if options.texts:
        samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        yield from _numbered_rows(path, members(path, samples))
        return
    parts = [SUMMARIES] if SUMMARIES in names else [name for name in names if name.startswith(JOURNAL_SUMMARIES)]
    summaries = [fields_of(summary) for part in members(path, parts) if isinstance(part, list) for summary in part]
    full = {
        place: name
        for place, sample_summary in enumerate(summaries)
        if _is_cut(sample_summary) and (name := _member(sample_summary)) in names
    }
    read_in_full = members(path, full.values())
    yield from _numbered_rows(
        path,
        (next(read_in_full) if place in full else sample_summary for place, sample_summary in enumerate(summaries)),
    )


def _is_cut(summary: Mapping[str, object]) -> bool:
    """Whether a summary may lack a part of its problem: an image, or the end of a long text."""
    messages = summary.get("input")
    contents = [fields_of(message).get("content") for message in messages] if isinstance(messages, list) else []
    parts = any(isinstance(content, list) for content in contents)
    return parts or any(TRUNCATION_MARK in (text_of(summary.get(name)) or "") for name in ("input", "target"))


def _member(summary: Mapping[str, object]) -> str:
    return f"samples/{text_of(summary.get('id'))}_epoch_{text_of(summary.get('epoch'))}.json"


def _numbered_rows(path: Path, samples: Iterable[object]) -> Iterator[Row]:
    for number, sample in enumerate(samples, 1):
        yield Row(path, number, fields_of(sample))


def _entries(row: Row, judge: VerdictReader, scorers: _Scorers, benchmark: str | None) -> Iterator[Entry]:
    """The entry of a sample; none where the run failed before scoring it."""
    scores = row.fields("scores")
    if row.values.get("error") and not scores:
        scorers.skip_failed(row)
        return
    score = scorers.score(scores)
    value = score.get("value")
    verdict, score_value = judge.mark(SCORE_LETTERS.get(value, value) if isinstance(value, str) else value, row.number)
    question = chat_text(row.values.get("input"), "user")
    output = row.fields("output")
    stop = text_of(_choice(output).get("stop_reason"))
    limit = row.values.get("limit")
    limit = text_of(fields_of(limit).get("type")) if isinstance(limit, dict) else text_of(limit)
    scorers.limits.update([limit] if limit else [])
    yield Entry(
        problem=row.problem("id", question=question),
        question=question,
        gold=row.text("target"),
        benchmark=benchmark,
        contents=content_hashes(
            choices=row.values.get("choices"), images=images_in(row.values.get("input"), row.fields("attachments"))
        ),
        sample=row.integer("epoch"),
        text=_completion(output, row.fields("attachments")),
        answer=text_of(score.get("answer")),
        verdict=verdict,
        score=score_value,
        tokens=integer_of(fields_of(output.get("usage")).get("output_tokens")),
        finish="length" if stop in TRUNCATING_STOPS or limit in LENGTH_LIMITS else stop,
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


FORMAT = Format(
    "inspect",
    "Inspect logs, .eval and .json",
    recognise,
    read,
    ("task_id.eval", "task_id.json"),
    columns=({"version", "status", "eval", "samples"}, {HEADER}),
)
