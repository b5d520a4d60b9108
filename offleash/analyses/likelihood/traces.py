"""External traces: solutions that others wrote for the problems of a run, read from JSONL, checked and scored.

Scores are kept beside the run whose model gave them, so each trace is scored once; a kill loses only the current batch.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from offleash.analyses.likelihood.models import RunModel, refuse_other_scores, score_differences
from offleash.data.identity import differences
from offleash.data.run_folder import append_to_run, folder_name
from offleash.data.scores import ScoredSample, Trace
from offleash.errors import OffleashError, unknown
from offleash.files.lines import FileKind, Repairs, jsonl_rows
from offleash.files.rows import Row
from offleash.progress import Progress
from offleash.render.escape import valid_utf8
from offleash.samplers.sampler import FINISHED, SamplingParams
from offleash.scoring.shards import prompts_of

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

NAMES = ("problem", "text", "author", "correct", "finish")
TRACE_FILE = FileKind(
    description="a file of traces",
    example='{"problem": ..., "text": ..., "author": ...}',
    missing='Traces are a JSONL file of {"problem": ..., "text": ..., "author": ...}.',
    keep_bytes=True,  # replaced in texts, refused in names
)
MAX_NAMED = 5  # unknown problems that are named
MAX_SUGGESTION_IDS = 2_000  # ids among which the nearest is looked for


@dataclass(frozen=True)
class ExternalTrace:
    """One trace of the file."""

    line: int  # of its row: what messages name it by
    problem: str  # as the row names it
    tally_row: int  # of its problem in the tally; -1 until that is looked up
    text: str
    author: str
    correct: bool | None  # None: the row does not say
    ended: bool


@dataclass(frozen=True)
class TraceFile:
    """The traces of a file, and how many rows are left out."""

    path: Path
    rows: int
    traces: tuple[ExternalTrace, ...]
    unknown: Mapping[str, str]  # ids that no run has, and the most similar id that one has ("": none is similar)
    unknown_rows: int
    empty: int
    duplicates: int  # rows that repeat an earlier one


def read_traces(path: Path, tally_rows: Mapping[str, int], columns: Mapping[str, str] | None = None) -> TraceFile:
    """The traces of a JSONL file for the problems in `tally_rows`; a bad row is an error that names its line."""
    for name in columns or {}:
        if name not in NAMES:
            raise unknown("trace column", name, NAMES)
    rows = [_trace(row, columns or {}) for row in jsonl_rows(path, TRACE_FILE)]
    seen: dict[tuple[int, str, str], ExternalTrace] = {}
    unknown_ids: dict[str, str] = {}
    unknown_rows = empty = duplicates = 0
    for row in rows:
        if row.problem not in tally_rows:
            unknown_rows += 1
            if row.problem not in unknown_ids:
                near = (
                    get_close_matches(row.problem, list(tally_rows)[:MAX_SUGGESTION_IDS], n=1)
                    if len(unknown_ids) < MAX_NAMED
                    else []
                )
                unknown_ids[row.problem] = near[0] if near else ""
        elif not row.text.strip():
            empty += 1
        else:
            tally_row = tally_rows[row.problem]
            first = seen.setdefault((tally_row, row.author, row.text), replace(row, tally_row=tally_row))
            duplicates += first.line != row.line
            _refuse_contradiction(path, first, row)
            if first.correct is None:
                seen[tally_row, row.author, row.text] = replace(first, correct=row.correct)
    _refuse_empty(path, len(rows), seen, unknown_ids, tally_rows, empty)
    return TraceFile(path, len(rows), tuple(seen.values()), unknown_ids, unknown_rows, empty, duplicates)


def _refuse_contradiction(path: Path, first: ExternalTrace, row: ExternalTrace) -> None:
    """Refuse a trace that one row calls correct and another wrong."""
    if first.correct is not row.correct and None not in (first.correct, row.correct):
        raise OffleashError(
            f"{path}: rows {first.line} and {row.line}: the same trace of {row.author!r} on {row.problem!r} is marked "
            "both correct and not correct; keep one row."
        )


def _refuse_empty(
    path: Path,
    rows: int,
    seen: Mapping[tuple[int, str, str], ExternalTrace],
    unknown_ids: Mapping[str, str],
    tally_rows: Mapping[str, int],
    empty: int,
) -> None:
    if seen:
        return
    if not unknown_ids:
        raise OffleashError(
            f"{path}: all of its {rows:,} traces are empty ({empty:,}); 'text' is what the author wrote."
        )
    first, near = next(iter(unknown_ids.items()))
    hint = f" Did you mean {near!r}?" if near else f" The runs have ids like {next(iter(tally_rows))!r}."
    raise OffleashError(
        f"{path}: none of its {rows:,} traces belongs to a problem of the runs; the first is for {first!r}.{hint} "
        "Name the column of ids with --map problem=COLUMN."
    )


def _trace(row: Row, columns: Mapping[str, str]) -> ExternalTrace:
    """The trace of a row, whose row in the tally is not known yet."""
    problem, trace_text, author = (
        row.column(name, columns, TRACE_FILE.example) for name in ("problem", "text", "author")
    )
    named = {name: columns.get(name, name) for name in NAMES}
    correct, finish = row.values.get(named["correct"]), row.values.get(named["finish"])
    if isinstance(problem, bool) or not isinstance(problem, str | int):
        raise _wrong_type_error(row, named["problem"], "the id of a problem", problem)
    if trace_text is not None and not isinstance(trace_text, str):
        raise _wrong_type_error(row, named["text"], "a string", trace_text)
    if not isinstance(author, str) or not author.strip():
        raise _wrong_type_error(row, named["author"], "who wrote the trace", author)
    for name, value in (("problem", str(problem)), ("author", author)):
        if valid_utf8(value) != value:  # a name with a replaced character would be another name
            raise _wrong_type_error(row, named[name], "text in UTF-8", value)
    if correct is not None and correct not in (True, False):
        raise _wrong_type_error(row, named["correct"], "true, false or null", correct)
    right = None if correct is None else bool(correct)
    text = valid_utf8(trace_text or "")
    return ExternalTrace(row.number, str(problem), -1, text, author.strip(), right, finish == FINISHED)


def _wrong_type_error(row: Row, name: str, expected: str, value: object) -> OffleashError:
    return OffleashError(f"{row.where}: {name!r} should be {expected}; found {str(value)[:60]!r}.")


# Scores of external traces, stored in the folder of the run whose model gave them.


TRACES_FOLDER = "traces"
SCORE_FILE = FileKind(
    description="a file of scores",
    example='{"trace": ..., "sums": ...}',
    next_step="Delete the file to score the traces again.",
)
TRACES_AT_A_TIME, CHARACTERS_AT_A_TIME = 256, 4 << 20  # traces and characters per batch: what a kill may lose
NO_PROMPT = "its problem has no prompt text, or has images"


@dataclass(frozen=True)
class TraceRequest:
    """The traces as one run's model reads them: after the prompts of that run."""

    run_model: RunModel
    trace_T: tuple[Trace | None, ...]  # None: the run keeps no text of the problem, or it has images
    key_T: tuple[str, ...]


def trace_request(run_model: RunModel, traces: Sequence[ExternalTrace], own_ids: Mapping[int, str]) -> TraceRequest:
    """The traces after the prompts of a run; `own` has the run's own ids of the problems, by row.

    Each run's model reads a trace after the prompt that the run was drawn with: the prompts of the two may differ.
    """
    prompts = prompts_of(run_model.folder)
    matched_traces = []
    for trace in traces:
        prompt, images = prompts.get(own_ids[trace.tally_row], (None, False))
        matched_traces.append(None if prompt is None or images else Trace(prompt, trace.text, trace.ended))
    return TraceRequest(
        run_model, tuple(matched_traces), tuple("" if trace is None else _key(trace) for trace in matched_traces)
    )


def stored_scores(run_model: RunModel) -> dict[str, ScoredSample]:
    """Stored scores of traces by a run's model, by the trace's key; refused if they were made differently."""
    scores: dict[str, ScoredSample] = {}
    rows = _lines(_file(run_model))
    if rows:
        refuse_other_scores(_file(run_model), run_model, score_differences(run_model, rows[0]))
    for row in rows:
        key, sums = row.get("trace"), row.get("sums")
        if isinstance(key, str) and isinstance(sums, dict):
            scores[key] = ScoredSample(sums.get("tokens"), sums.get("logprob_raw"), windows=sums.get("windows"),
                              reason=str(sums.get("reason") or ""))  # fmt: skip
    return scores


def missing(request: TraceRequest) -> list[Trace]:
    """The traces that have no score yet, each once."""
    scores = stored_scores(request.run_model)
    pairs = zip(request.key_T, request.trace_T, strict=True)
    return list({key: trace for key, trace in pairs if trace is not None and key not in scores}.values())


def score_traces(run_model: RunModel, traces: Sequence[Trace], scorer: "Scorer", progress: Progress) -> None:
    """Score traces under the model's own distribution and append the scores; a kill loses the current batch."""
    file, done = _file(run_model), 0
    with append_to_run(run_model.folder):
        file.parent.mkdir(exist_ok=True)
        _claim(file, run_model, scorer)
        for part in _parts(traces):
            scored = scorer.score(part, SamplingParams())
            rows = [
                {
                    "trace": _key(trace),
                    "sums": {
                        "tokens": sums.tokens,
                        "logprob_raw": sums.logprob_raw,
                        "windows": sums.windows,
                        "reason": sums.reason,
                    },
                }
                for trace, sums in zip(part, scored, strict=True)
            ]
            _append(file, rows)
            done += len(part)
            progress(f"{run_model.run}: {done:,} of {len(traces):,} traces scored")


def sums_of(request: TraceRequest) -> list[ScoredSample]:
    """The stored score of each trace; one without a log-probability, and with the reason, where there is none."""
    scores = stored_scores(request.run_model)
    return [
        ScoredSample(None, reason=NO_PROMPT)
        if trace is None
        else scores.get(key, ScoredSample(None, reason="not scored"))
        for trace, key in zip(request.trace_T, request.key_T, strict=True)
    ]


def _claim(file: Path, run_model: RunModel, scorer: "Scorer") -> None:
    """Check that the file's scores are by this model as it is loaded now, and cut off a line that a kill left."""
    rows, about = _lines(file), scorer.about
    identity = {"fingerprint": about.fingerprint, "raw": about.raw, "settings": dict(about.settings)}
    identity |= run_model.model.chat.to_document
    if not rows:
        file.unlink(missing_ok=True)
        _append(file, [{"schema": 1, "model": str(run_model.model), **identity}])
        return
    first = rows[0]
    stored = {name: first.get(name, value) for name, value in identity.items()}  # older files lack some
    stored |= {name: first.get(name) for name in ("system", "chat_kwargs")}
    refuse_other_scores(file, run_model, differences(stored, identity))
    text = file.read_bytes()
    if not text.endswith(b"\n"):
        whole = len(rows) > text.count(b"\n")  # only the line feed was lost: the row was read, and is kept
        file.write_bytes(text + b"\n" if whole else text[: text.rfind(b"\n") + 1])


def _append(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Append rows to a file of scores."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise OffleashError(f"{file} could not be written ({error.strerror}). Free some disk space.") from None


def _lines(file: Path) -> list[Mapping[str, object]]:
    """The rows of a file of scores; without the last one where a kill cut it off."""
    return [row.values for row in jsonl_rows(file, SCORE_FILE, Repairs())] if file.is_file() else []


def _file(run_model: RunModel) -> Path:
    return run_model.folder / TRACES_FOLDER / f"{folder_name(str(run_model.model))}.jsonl"


def _key(trace: Trace) -> str:
    text = json.dumps([trace.prompt, trace.text, trace.ended])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _parts(traces: Sequence[Trace]) -> list[list[Trace]]:
    parts: list[list[Trace]] = [[]]
    characters = 0
    for trace in traces:
        if parts[-1] and (len(parts[-1]) == TRACES_AT_A_TIME or characters + len(trace.text) > CHARACTERS_AT_A_TIME):
            parts.append([])
            characters = 0
        parts[-1].append(trace)
        characters += len(trace.text)
    return [part for part in parts if part]
