"""Texts: logs whose samples are to be looked at are copied into run folders first, which find a sample by its place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from offleash.data.folder import is_run
from offleash.data.notes import Note
from offleash.files.opening import head_of
from offleash.loading.arguments import Argument, distinct_names, distinct_paths, parse_argument
from offleash.loading.import_logs import import_logs
from offleash.loading.load import Reading
from offleash.logs.registry import recognised
from offleash.progress import Progress, silent

COUNTS = "counts"


@dataclass(frozen=True)
class Readable:
    """What to compare instead of the arguments given, and the notes of the logs that were copied, by run."""

    arguments: Sequence[str]
    notes: dict[str, tuple[Note, ...]] = field(default_factory=dict)


@contextmanager
def with_texts(arguments: Sequence[str], reading: Reading, progress: Progress = silent) -> Iterator[Readable]:
    """The same runs, logs of samples in run folders of a scratch place; run folders and counts stay where they are.

    One file that holds several runs (`split_by`) stays as it is too: its texts cannot be shown.
    """
    parsed = distinct_paths([parse_argument(argument) for argument in arguments])
    if reading.options.split_by is not None or all(_stays(one, reading) for one in parsed):
        yield Readable(arguments)
        return
    names = distinct_names([one.name for one in parsed])
    whole = replace(reading, options=replace(reading.options, texts=True))
    with TemporaryDirectory(prefix="offleash-") as scratch:
        out, notes = [], {}
        for number, (text, one, name) in enumerate(zip(arguments, parsed, names, strict=True)):
            place = text[len(one.name) + 1 :] if one.given else text
            if not _stays(one, reading):
                done = import_logs(text, Path(scratch) / str(number), whole, progress)
                if done.verifier is not None:  # without verdicts, what is wrong is best said of the log itself
                    place, notes[name] = str(done.folder), done.notes
            out.append(f"{name}={place}")
        yield Readable(out, notes)


def _stays(one: Argument, reading: Reading) -> bool:
    """Whether an argument is read where it is: a run folder, or counts, of which there is no text to copy."""
    if any(is_run(path) for path in one.paths):
        return True
    if reading.format is not None:
        return reading.format == COUNTS
    kind = recognised(head_of(one.paths[0]), reading.options)
    return kind is not None and kind.name == COUNTS
