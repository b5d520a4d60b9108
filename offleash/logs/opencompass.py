"""OpenCompass: `predictions/MODEL/DATASET.json`, with the verdicts of `results/MODEL/DATASET.json`.

A file of predictions is an object of numbers: "0": {`origin_prompt`, `prediction`, `gold`}. The results hold, with
`--dump-eval-details`, `details`: an object of the same numbers, or (in 0.5) a list with one object per problem whose
fields are lists over its samples. Either has `correct`, `is_correct` or `cascade_correct`. Traps:

* A dataset with `n` samples per problem is written n times, one after the other (a, b, a, b): numbers are of samples.
* Large datasets are predicted in parts, DATASET_0.json, DATASET_1.json, each numbered from 0, with one file of results.
* Results without details are only an accuracy: samples stay unverified.
* Many evaluators (those of multiple choice) give no details; the file then holds `predictions` and `references`. Their
  being equal is the verdict where it gives the accuracy in the file; where it does not, samples stay unverified.
* A prediction may be a list (self-consistency), scored as a whole: its samples stay unverified.
* Both files are in one work folder: results are read by themselves only where their predictions are missing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.errors import OffleashError, unknown
from offleash.files.detect import Container, Head
from offleash.files.lines import document
from offleash.files.rows import Row, fields_of, integer_of, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import check_maps, converted
from offleash.logs.own_verdicts import VerdictReader

VERDICT_FIELDS = (
    "cascade_correct",
    "correct",
    "is_correct",
)  # fields of details that are verdicts, the final one first
EXACT_MATCH = "exact match"  # the verdict of details that have none
PART_NAME = re.compile(r"(.+)_([0-9]{1,4})")  # the name of a part of a dataset
NUMBER = re.compile("[0-9]{1,9}")
HUMAN = ("HUMAN", "user")
HINT = "Run OpenCompass with --dump-eval-details, which writes the verdict of each sample to its results/ folder"


def recognise(head: Head) -> bool:
    """Numbered predictions, or details of results whose predictions are not there."""
    if head.container not in (Container.JSON, Container.JSONL):
        return False
    if _has_predictions(head.first):
        return True
    first = next(iter(_detail_list(head.first.get("details"))), {})
    return bool(first.keys() & {*VERDICT_FIELDS, "origin_prediction"}) and not _companion_files(
        head.path, "results", "predictions"
    )


def read(path: Path, head: Head, options: Options) -> Log:
    """The samples of a dataset; the verdict is the field of --filter, or the first of VERDICT_FIELDS in the details."""
    check_maps("opencompass", options, ())
    if options.split_by is not None:
        raise OffleashError(
            f"{path} holds a single OpenCompass run and has no column {options.split_by!r} to split by. "
            "Leave out --split-by."
        )
    document_fields = fields_of(head.first if head.container is Container.JSON else document(path))
    has_predictions = _has_predictions(document_fields)
    companions = _companion_files(path, "predictions", "results") if has_predictions else []
    results = (fields_of(document(companions[0])) if companions else {}) if has_predictions else document_fields
    details = _with_exact_match(_detail_list(results.get("details")), results.get("accuracy"))
    names = dict.fromkeys(name for detail in details for name in detail)
    if options.filter is not None and options.filter not in names:
        raise unknown("details field", options.filter, names)
    verdict_field = options.filter or next((name for name in (*VERDICT_FIELDS, EXACT_MATCH) if name in names), None)
    if has_predictions:
        offset = _offset(path) if companions and companions[0].stem != path.stem else 0
        rows = [
            Row(path, int(key) + 1, fields_of(value)) for key, value in document_fields.items() if NUMBER.fullmatch(key)
        ]
        rows.sort(key=lambda row: row.number)
        part = _Dataset(path, details, verdict_field, offset, _size(rows, details, offset))
    else:
        rows = [Row(path, number, detail) for number, detail in enumerate(details, 1)]
        part = _Dataset(path, details, verdict_field, 0, len(rows))
    log = Log("opencompass", f"OpenCompass {verdict_field}" if verdict_field else None, iter(()), companions=companions)
    if path.parent.parent.name in ("predictions", "results"):
        log.facts["model"] = path.parent.name
    log.frames = converted(log, rows, path, options, part.prediction if has_predictions else part.detail)
    if verdict_field is None:
        log.unverified_hint = HINT
    elif other_fields := [name for name in names if name.endswith("correct") and name != verdict_field]:
        text = f"the verdict is {verdict_field}; also available: {', '.join(other_fields)} (--filter NAME)."
        log.notes.append(Note(f"{path.name}: {text}"))
    return log


@dataclass
class _Dataset:
    """Converts the rows of one file."""

    path: Path
    details: list[Mapping[str, object]]
    verdict_field: str | None
    offset: int  # samples in the parts of the dataset before this file
    size: int  # problems in the dataset, which repeats after them

    def prediction(self, row: Row, judge: VerdictReader) -> Iterator[Entry]:
        """The samples of a row of predictions."""
        place = self.offset + row.number - 1
        problem, sample = place % self.size, place // self.size
        prompt, texts = _prompt(row.values.get("origin_prompt")), row.values.get("prediction")
        about = self._about(row, str(problem), prompt, row.values.get("gold"))
        if isinstance(texts, list):  # scored by their majority
            judge.samples_with_shared_verdict += len(texts)
            yield from (about._replace(text=text_of(text)) for text in texts)
            return
        detail = self.details[problem] if problem < len(self.details) else {}
        values = detail.get(self.verdict_field or "")
        if not isinstance(values, list):  # one object per sample, not per problem
            detail = self.details[place] if place < len(self.details) else {}
            values = detail.get(self.verdict_field or "")
        entry = about._replace(sample=sample, text=text_of(texts), tokens=integer_of(row.values.get("res_length")))
        yield self._with_verdict(entry, _value_at_position(values, sample), row, judge)

    def detail(self, row: Row, judge: VerdictReader) -> Iterator[Entry]:
        """The samples of a row of details: one, or lists of them."""
        name = row.text("example_abbr") or str(row.number - 1)
        prompts = row.values.get("prompt")
        chat = isinstance(prompts, list) and bool(prompts) and isinstance(prompts[0], dict)
        prompt = _prompt(prompts if chat else _value_at_position(prompts, 0))
        golds = next((row.values[key] for key in ("references", "answer", "refr", "gold") if key in row.values), None)
        texts = next(
            (row.values[key] for key in ("origin_prediction", "prediction", "pred") if key in row.values), None
        )
        values = row.values.get(self.verdict_field or "")
        has_several = isinstance(values, list)
        about = self._about(row, name, prompt, _value_at_position(golds, 0) if has_several else golds)
        for sample in range(len(values)) if isinstance(values, list) else (0,):
            text = _value_at_position(texts, sample)
            answer = row.values.get("predictions", row.values.get("pred"))
            entry = about._replace(
                sample=sample, text=text_of(text), answer=text_of(_value_at_position(answer, sample))
            )
            yield self._with_verdict(entry, _value_at_position(values, sample), row, judge)

    def _about(self, row: Row, name: str, prompt: str | None, golds: object) -> Entry:
        """The problem of a row. Several golds are alternatives: no single one for a verifier."""
        golds = golds[0] if isinstance(golds, list) and len(golds) == 1 else golds
        return Entry(
            problem=name,
            question=prompt,
            gold=None if isinstance(golds, list) else text_of(golds),
            benchmark=_dataset(self.path),
            contents=content_hashes(tests=golds if isinstance(golds, list) else None),
            row=row.number,
        )

    def _with_verdict(self, entry: Entry, value: object, row: Row, judge: VerdictReader) -> Entry:
        if self.verdict_field is None:
            return entry
        verdict, score = judge.mark(value, row.number)
        return entry._replace(verdict=verdict, score=score)


def _has_predictions(values: Mapping[str, object]) -> bool:
    """Whether these are numbered predictions: "0": {"origin_prompt": ..., "prediction": ...}."""
    first = fields_of(next(iter(values.values()), None))
    has_number_keys = bool(values) and all(NUMBER.fullmatch(str(key)) for key in values)
    return has_number_keys and "prediction" in first and bool(first.keys() & {"origin_prompt", "gold", "testing input"})


def _detail_list(details: object) -> list[Mapping[str, object]]:
    """Details in their order; the object also holds `type`, which is not one."""
    if isinstance(details, dict):
        details = [detail for key, detail in details.items() if NUMBER.fullmatch(str(key))]
    return [fields_of(detail) for detail in details] if isinstance(details, list) else []


def _with_exact_match(details: list[Mapping[str, object]], accuracy: object) -> list[Mapping[str, object]]:
    """Details without a verdict, with that of an exact match where this is what the accuracy was counted by."""
    pairs = [(detail.get("predictions"), detail.get("references")) for detail in details]
    if (
        not pairs
        or any(name in detail for detail in details for name in VERDICT_FIELDS)
        or None in (*pairs[0], accuracy)
    ):
        return details
    matches = [prediction == reference for prediction, reference in pairs]
    matches_accuracy = isinstance(accuracy, int | float) and abs(accuracy - 100 * sum(matches) / len(matches)) < 0.01
    return (
        [{**detail, EXACT_MATCH: match} for detail, match in zip(details, matches, strict=True)]
        if matches_accuracy
        else details
    )


def _companion_files(path: Path, own_folder: str, other_folder: str) -> list[Path]:
    """The files of the same dataset in the other folder: of the whole dataset, or of its parts."""
    if path.parent.parent.name != own_folder:
        return []
    folder = path.parent.parent.with_name(other_folder) / path.parent.name
    part = PART_NAME.fullmatch(path.stem)
    names = [path.name, f"{path.stem}_0{path.suffix}", f"{part[1]}{path.suffix}" if part else path.name]
    return [folder / name for name in names if (folder / name).is_file()]


def _dataset(path: Path) -> str | None:
    """The name of the dataset; a number at its end is that of a part where the part before it is there."""
    part = PART_NAME.fullmatch(path.stem)
    return part[1] if part and path.with_name(f"{part[1]}_0{path.suffix}").is_file() else path.stem


def _offset(path: Path) -> int:
    """Samples in the parts before this one."""
    part = PART_NAME.fullmatch(path.stem)
    before = [path.with_name(f"{part[1]}_{number}{path.suffix}") for number in range(int(part[2]))] if part else []
    missing = [name for name in before if not name.is_file()]
    if missing:
        raise OffleashError(f"{path} is part of a dataset, but {missing[0].name} before it is missing. Copy all parts.")
    return sum(len(fields_of(document(name))) for name in before)


def _size(rows: list[Row], details: list[Mapping[str, object]], offset: int) -> int:
    """Problems in the dataset: its details where they are lists over samples, else the period of prompts and golds."""
    if details and any(isinstance(details[0].get(name), list) for name in VERDICT_FIELDS):
        return len(details)
    last = max((row.number for row in rows), default=1)
    keys = [(text_of(row.values.get("origin_prompt")), text_of(row.values.get("gold"))) for row in rows]
    divisors = (size for size in range(1, len(keys)) if len(keys) % size == 0 and keys[0] == keys[size])
    is_complete = offset == 0 and last == len(keys)  # a part, or a file with gaps, shows no period
    period = next((size for size in divisors if keys[size:] == keys[:-size]), None) if is_complete else None
    return period or max(len(details), offset + last)


def _prompt(prompt: object) -> str | None:
    """The text of a prompt, of a chat that of its human turns."""
    if not isinstance(prompt, list):
        return text_of(prompt)
    turns = [fields_of(turn) for turn in prompt]
    user_turns = [turn for turn in turns if turn.get("role") in HUMAN] or turns
    return "\n\n".join(text_of(turn.get("prompt", turn.get("content"))) or "" for turn in user_turns)


def _value_at_position(values: object, place: int) -> object:
    """A value, or of a list over samples that of one."""
    if not isinstance(values, list):
        return values
    return values[place] if place < len(values) else None


FORMAT = Format("opencompass", "OpenCompass predictions and results", recognise, read, ("gsm8k.json",))
