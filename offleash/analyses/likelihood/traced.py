"""Scores of external traces, kept beside the run whose model gave them; each trace is read once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from offleash.analyses.likelihood.law import Law, differences, refusal
from offleash.analyses.likelihood.traces import External
from offleash.data.folder import append_to_run, folder_name
from offleash.data.scores import Sums, Trace
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.samplers.sampler import Decoding
from offleash.scoring.shards import asked

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

FOLDER = "traces"
AT_A_TIME, LETTERS_AT_A_TIME = 256, 4 << 20
NO_PROMPT = "its problem has no text to ask, or images"


@dataclass(frozen=True)
class Wanted:
    """The traces as one run's model reads them: after the prompts of that run."""

    law: Law
    trace_T: tuple[Trace | None, ...]  # None: the run keeps no text of the problem, or it has images
    key_T: tuple[str, ...]


def wanted_by(law: Law, traces: Sequence[External], own: Mapping[int, str]) -> Wanted:
    """The traces after the prompts of a run; `own` has the run's own ids of the problems."""
    prompts = asked(law.folder)
    found = []
    for one in traces:
        prompt, images = prompts.get(own[one.place], (None, False))
        found.append(None if prompt is None or images else Trace(prompt, one.text, one.ended))
    return Wanted(law, tuple(found), tuple("" if one is None else _key(one) for one in found))


def standing(law: Law) -> dict[str, Sums]:
    """Scores of traces that a run's model has given before, by trace; refused if they were made in another way."""
    found: dict[str, Sums] = {}
    rows = _lines(_file(law))
    differing = list(differences(law, rows[0])) if rows else []
    if differing:
        raise OffleashError(refusal(_file(law), law, differing))
    for row in rows:
        key, sums = row.get("trace"), row.get("sums")
        if isinstance(key, str) and isinstance(sums, dict):
            found[key] = Sums(sums.get("tokens"), sums.get("logprob_raw"), windows=sums.get("windows"),
                              reason=str(sums.get("reason") or ""))  # fmt: skip
    return found


def missing(wanted: Wanted) -> list[Trace]:
    """The traces that have no score yet, each once."""
    there = standing(wanted.law)
    pairs = zip(wanted.key_T, wanted.trace_T, strict=True)
    return list({key: trace for key, trace in pairs if trace is not None and key not in there}.values())


def score_traces(law: Law, traces: Sequence[Trace], scorer: "Scorer", progress: Progress) -> None:
    """Score traces under the model's own distribution and keep what it says; a kill loses the part in work."""
    file, done = _file(law), 0
    with append_to_run(law.folder):
        file.parent.mkdir(exist_ok=True)
        _claim(file, law, scorer)
        for part in _parts(traces):
            scored = scorer.score(part, Decoding())
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
            progress(f"{law.run}: {done:,} of {len(traces):,} traces scored")


def sums_of(wanted: Wanted) -> list[Sums]:
    """What stands for each trace; without sums where nothing does."""
    there = standing(wanted.law)
    return [
        Sums(None, reason=NO_PROMPT) if trace is None else there.get(key, Sums(None, reason="not scored"))
        for trace, key in zip(wanted.trace_T, wanted.key_T, strict=True)
    ]


def _claim(file: Path, law: Law, scorer: "Scorer") -> None:
    """The file belongs to one model as it is loaded; what a kill left of a line is cut off."""
    rows, about = _lines(file), scorer.about
    told = {"fingerprint": about.fingerprint, "raw": about.raw, "settings": dict(about.settings)}
    if not rows:
        file.unlink(missing_ok=True)
        _append(file, [{"schema": 1, "model": str(law.model), **told}])
        return
    first = rows[0]
    differing = [
        f"{name}: {first[name]!r} in the scores, {now!r} now"
        for name, now in told.items()
        if name in first and first[name] != now
    ]
    if differing:
        raise OffleashError(refusal(file, law, differing))
    text = file.read_bytes()
    if not text.endswith(b"\n"):
        file.write_bytes(text[: text.rfind(b"\n") + 1])


def _append(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise OffleashError(f"{file} could not be written ({error.strerror}); make room for it.") from None


def _lines(file: Path) -> list[dict[str, object]]:
    if not file.is_file():
        return []
    rows = []
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            continue  # a kill cut it off
        try:
            row = json.loads(line)
        except ValueError:
            raise OffleashError(
                f"{file}, line {number} is damaged; delete the file to score the traces again."
            ) from None
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _file(law: Law) -> Path:
    return law.folder / FOLDER / f"{folder_name(str(law.model))}.jsonl"


def _key(trace: Trace) -> str:
    text = json.dumps([trace.prompt, trace.text, trace.ended])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _parts(traces: Sequence[Trace]) -> list[list[Trace]]:
    parts: list[list[Trace]] = [[]]
    letters = 0
    for trace in traces:
        if parts[-1] and (len(parts[-1]) == AT_A_TIME or letters + len(trace.text) > LETTERS_AT_A_TIME):
            parts.append([])
            letters = 0
        parts[-1].append(trace)
        letters += len(trace.text)
    return [part for part in parts if part]
