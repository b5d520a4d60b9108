"""Import: other people's logs as run folders, texts and all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.folder import create_run, is_run
from offleash.data.notes import Note
from offleash.errors import OffleashError
from offleash.loading.arguments import parse_argument
from offleash.loading.load import Reading, merged_facts, read_parts
from offleash.loading.merge import gather
from offleash.logs.format import Options
from offleash.logs.registry import open_log
from offleash.progress import Progress, silent

SHARD_BYTES = 64 << 20


@dataclass(frozen=True)
class Imported:
    """What went into a run folder."""

    folder: Path
    problems: int
    samples: int
    verdicts: int
    verifier: str | None
    format: str
    notes: tuple[Note, ...]
    unverified_hint: str


def import_logs(argument: str, into: Path, reading: Reading | None = None, progress: Progress = silent) -> Imported:
    """Read logs twice: once to number their samples, once to copy their texts in bounded memory."""
    reading = reading or Reading(Options(texts=True))
    named = parse_argument(argument)
    if any(is_run(path) for path in named.paths):
        raise OffleashError(f"{argument} is a run folder already; import takes logs of other tools.")
    if reading.options.split_by is not None:
        raise OffleashError("import writes one run; leave out --split-by, or split the file first.")
    parts, logs = read_parts(named, reading, progress)
    if logs[0].counts:
        raise OffleashError(
            f"{argument} holds counts, not samples: nothing to import. `offleash compare` takes it as it is."
        )
    problems, rows, notes = gather(parts, named.name)
    place = rows.select("part", "place", "index", label="problem")
    verifier = next((log.verifier for log in logs if log.verifier), None)
    facts = merged_facts(logs, named.paths) | {"blake2b": _hash(part.path for part in parts)}
    with create_run(into, named.name if named.given else into.name, problems, facts) as run:
        for number, part in enumerate(parts):
            ours = place.filter(pl.col("part") == number).drop("part")
            done = 0
            for frame in _chunks(open_log(part.path, reading.options, reading.format).frames):
                numbered = frame.with_row_index("place", done).join(ours, on="place", how="inner")
                done += frame.height
                shard = numbered.drop("problem").rename({"label": "problem"})
                run.write_samples(shard.select("problem", "index", "text", "tokens", "finish"))
                if verifier is not None:
                    verdict = ["verdict", "answer", "solution", "score"]
                    run.write_verdicts(verifier, shard.select("problem", "index", *verdict))
                progress(f"{part.path.name}: {done:,} samples written")
    return Imported(
        folder=into,
        problems=problems.height,
        samples=rows.height,
        verdicts=rows.height - rows["verdict"].null_count(),
        verifier=verifier,
        format=facts["format"],
        notes=tuple(note for log in logs for note in log.notes) + tuple(notes),
        unverified_hint=next((log.unverified_hint for log in logs if log.unverified_hint), ""),
    )


def _hash(paths: Iterable[Path]) -> str:
    """One hash of all files, in their order: which logs a run came from can be checked later."""
    whole = blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                whole.update(block)
    return whole.hexdigest()


def _chunks(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames gathered to shards of a good size, since a run of many small files reads slowly."""
    held: list[pl.DataFrame] = []
    size = 0.0
    for frame in frames:
        held.append(frame)
        size += frame.estimated_size()
        if size >= SHARD_BYTES:
            yield pl.concat(held)
            held, size = [], 0.0
    if held:
        yield pl.concat(held)
