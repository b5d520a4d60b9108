"""Scores of a run, shard by shard: those that stand are kept, those that are missing are made."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.errors import OffleashError
from offleash.samplers.sampler import FINISHED, Decoding
from offleash.study.load import Progress
from offleash.study.pace import duration
from offleash.study.positions import positions_of
from offleash.tables.folder import read_problems
from offleash.tables.positions import POSITIONS, SAMPLES, positions_on, write_positions
from offleash.tables.samples import SAMPLES as SAMPLE_COLUMNS
from offleash.tables.scores import SCORES, Sums, Trace, scores_on, write_scores
from offleash.tables.shards import check_schema

if TYPE_CHECKING:
    from offleash.samplers.engine.scoring import Read, Scorer

SAMPLES_AT_A_TIME = 4_096
BYTES_AT_A_TIME = 16 << 20  # of text
NO_TEXT = "the run keeps no text of it"
NO_PROMPT = "its problem has no text to ask"
IMAGES = "its problem has images, which score does not show"
KEY = ["problem", "index"]


@dataclass(frozen=True)
class Selection:
    """Which samples of a run are to be scored; all of them where nothing is said."""

    first: int | None = None  # of each problem, by index
    correct: bool = False  # only those that the verifier found correct
    problems: frozenset[str] | None = None

    def keep(self, keys: pl.DataFrame, right: pl.DataFrame | None) -> pl.DataFrame:
        """The keys that are chosen; `right` has those of correct samples."""
        if self.first is not None:
            keys = keys.filter(pl.col("index") < self.first)
        if self.problems is not None:
            keys = keys.filter(pl.col("problem").is_in(list(self.problems)))
        return keys if right is None else keys.join(right, on=KEY, how="semi")


@dataclass
class Shards:
    """The scoring of one run."""

    folder: Path
    scorer: "Scorer"
    name: str  # of the folder that the scores go to
    decoding: Decoding
    selection: Selection
    right: pl.DataFrame | None  # keys of correct samples, where only they are wanted
    ends: bool  # a sample that finished has its end scored
    progress: Progress

    def __post_init__(self) -> None:
        self._asked = asked(self.folder)
        self._wanted = self._standing = self.new = 0
        self._started = time.monotonic()

    def all(self, shards: list[Path]) -> int:
        """Score what is missing; how many samples that were."""
        self._wanted = sum(self._chosen(shard).height for shard in shards)
        for shard in shards:
            self._score(shard)
        return self.new

    def _chosen(self, shard: Path) -> pl.DataFrame:
        check_schema(shard, SAMPLE_COLUMNS)
        return self.selection.keep(pl.read_parquet(shard, columns=KEY), self.right)

    def _score(self, shard: Path) -> None:
        chosen, standing = self._chosen(shard), scores_on(self.folder, self.name, shard.name)
        stranger = chosen.filter(~pl.col("problem").is_in(list(self._asked)))
        if stranger.height:
            raise OffleashError(f"{shard} has samples of {stranger['problem'][0]!r}, which is no problem of its run.")
        positions = positions_on(self.folder, self.name, shard.name)
        if standing is not None and _samples(positions) != standing.height:
            # by an older version, or a kill came between the two files: both are made again, of the same samples
            chosen = pl.concat([chosen, standing.select(KEY).join(chosen, on=KEY, how="anti")])
            standing = positions = None
        missing = chosen if standing is None else chosen.join(standing, on=KEY, how="anti")
        self._standing += chosen.height - missing.height
        if not missing.height:
            return
        scores = [standing] if standing is not None else []
        places = [positions] if positions is not None else []
        for start, size in _slices(shard):
            part = pl.scan_parquet(shard).select(*KEY, "text", "finish").slice(start, size).collect()
            rows = part.join(missing, on=KEY, how="semi")
            if rows.height:
                frame, where = self._read(rows)
                scores.append(frame)
                places.append(where)
                self._tell(rows.height)
        write_positions(self.folder, self.name, pl.concat(places), shard.name)
        write_scores(self.folder, self.name, pl.concat(scores), shard.name)

    def _read(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Scores and positions of samples."""
        found: list[Sums] = []
        traces: list[tuple[int, str, Trace]] = []
        for problem, text, finish in rows.select("problem", "text", "finish").iter_rows():
            prompt, images = self._asked[problem]
            if prompt is None or text is None or images:
                found.append(Sums(None, reason=NO_PROMPT if prompt is None else NO_TEXT if text is None else IMAGES))
                continue
            traces.append((len(found), problem, Trace(prompt, text, self.ends and finish == FINISHED)))
            found.append(Sums(None))
        read = self.scorer.read([trace for _, _, trace in traces], self.decoding)
        for (place, _, _), one in zip(traces, read, strict=True):
            found[place] = one.sums
        return frame_of(rows, found), _positions(rows, [(problem, trace) for _, problem, trace in traces], read)

    def _tell(self, samples: int) -> None:
        self.new += samples
        left = self._wanted - self._standing - self.new
        seconds = (time.monotonic() - self._started) * left / self.new
        self.progress(
            f"{self.folder.name}: {self._standing + self.new:,} of {self._wanted:,} samples scored, "
            f"about {duration(seconds)} left"
        )


def frame_of(keys: pl.DataFrame, sums: list[Sums]) -> pl.DataFrame:
    """Scores (SCORES) of samples from their sums, in the same order."""
    columns = {one.name: [getattr(row, one.name) for row in sums] for one in fields(Sums)}
    columns["reason"] = [reason or None for reason in columns["reason"]]
    return pl.DataFrame({"problem": keys["problem"], "index": keys["index"], **columns}, schema=SCORES)


def asked(folder: Path) -> Mapping[str, tuple[str | None, bool]]:
    """What is asked for each problem, and whether it shows images."""
    problems = read_problems(folder).select("problem", pl.coalesce("prompt", "question"), "images")
    found = {problem: (prompt, bool(images)) for problem, prompt, images in problems.iter_rows()}
    if all(prompt is None for prompt, _ in found.values()):
        raise OffleashError(
            f"{folder} keeps no texts of its problems, and a sample is scored after what was asked; "
            "import logs that keep the questions, or score rows of prompt and text (offleash score FILE.jsonl)."
        )
    return found


def _positions(rows: pl.DataFrame, traces: list[tuple[str, Trace]], read: "list[Read]") -> pl.DataFrame:
    """Positions of what was read, a text that was drawn several times once; samples without sums count as samples."""
    times, first = Counter(traces), dict(zip(traces, read, strict=True))
    frame = positions_of(
        [problem for problem, _ in times], [first[key].entropy_T for key in times], list(times.values())
    )
    unread = Counter(rows["problem"].to_list()) - Counter(problem for problem, _ in traces)
    more = {"problem": list(unread), "kind": [SAMPLES] * len(unread), "bin": [0] * len(unread)}
    counted = {"tokens": list(unread.values()), "entropy": [0.0] * len(unread)}
    return pl.concat([frame, pl.DataFrame({**more, **counted}, schema=POSITIONS)])


def _samples(positions: pl.DataFrame | None) -> int:
    """How many samples positions are those of; -1 where there are none."""
    return -1 if positions is None else int(positions.filter(pl.col("kind") == SAMPLES)["tokens"].sum())


def _slices(shard: Path) -> Iterator[tuple[int, int]]:
    """Parts of a shard that fit into memory as texts and as tokens."""
    sizes = pl.scan_parquet(shard).select(pl.col("text").str.len_bytes().fill_null(0)).collect().to_series()
    start = size = held = 0
    for bytes_ in sizes:
        if size and (size == SAMPLES_AT_A_TIME or held + bytes_ > BYTES_AT_A_TIME):
            yield start, size
            start, size, held = start + size, 0, 0
        size, held = size + 1, held + bytes_
    if size:
        yield start, size
