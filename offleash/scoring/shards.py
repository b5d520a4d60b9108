"""Scores of a run, shard by shard: those that stand are kept, those that are missing are made."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from offleash.data.folder import read_problems
from offleash.data.positions import POSITIONS, SAMPLES, positions_on, write_positions
from offleash.data.samples import SAMPLES as SAMPLE_COLUMNS
from offleash.data.scores import SCORES, Sums, Trace, scores_on, write_scores
from offleash.data.shards import check_schema
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.render.numbers import duration
from offleash.samplers.sampler import FINISHED, Decoding
from offleash.scoring.positions import are_first, placed_samples, positions_of

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Read, Scorer

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
        self._wanted = sum(self.selection.keep(self._keys(shard), self.right).height for shard in shards)
        for shard in shards:
            self._score(shard)
        return self.new

    def _keys(self, shard: Path) -> pl.DataFrame:
        check_schema(shard, SAMPLE_COLUMNS)
        return pl.read_parquet(shard, columns=KEY)

    def _score(self, shard: Path) -> None:
        keys, standing = self._keys(shard), scores_on(self.folder, self.name, shard.name)
        chosen = self.selection.keep(keys, self.right)
        stranger = chosen.filter(~pl.col("problem").is_in(list(self._asked)))
        if stranger.height:
            raise OffleashError(f"{shard} has samples of {stranger['problem'][0]!r}, which is no problem of its run.")
        scored = chosen.clear() if standing is None else standing.select(KEY)
        positions = positions_on(self.folder, self.name, shard.name)
        placed = None if positions is None else placed_samples(positions, keys, scored)
        unscored = chosen.join(scored, on=KEY, how="anti")
        unplaced = self._unplaced(keys, chosen, scored, placed)
        missing = pl.concat([unscored, unplaced]).unique()
        again = missing.join(chosen, on=KEY, how="anti").height
        self._wanted += again
        self._standing += chosen.height + again - missing.height
        if not missing.height:
            return
        scores = [standing] if standing is not None else []
        places = [pl.DataFrame(schema=POSITIONS) if positions is None or placed is None else positions]
        for start, size in _slices(shard):
            part = pl.scan_parquet(shard).select(*KEY, "text", "finish").slice(start, size).collect()
            rows = part.join(missing, on=KEY, how="semi").join(
                unplaced.with_columns(place=True), on=KEY, how="left", maintain_order="left"
            )
            if rows.height:
                frame, where = self._read(rows.with_columns(pl.col("place").fill_null(False)))
                scores.append(frame.join(scored, on=KEY, how="anti"))
                places.append(where)
                self._tell(rows.height)
        write_positions(self.folder, self.name, pl.concat(places), shard.name)
        write_scores(self.folder, self.name, pl.concat(scores), shard.name)

    def _unplaced(
        self, keys: pl.DataFrame, chosen: pl.DataFrame, scored: pl.DataFrame, placed: pl.DataFrame | None
    ) -> pl.DataFrame:
        """The samples whose positions are to be made: those chosen whatever their verdicts, and those that were lost.

        Correct samples alone would look surer than all, so positions are of the first samples of each problem only.
        """
        wanted = chosen.clear() if self.selection.correct else chosen
        if placed is None:  # by an older version, or a kill came between the two files
            lost = scored if are_first(scored, keys) else scored.clear()
            return pl.concat([wanted, lost]).unique()
        return wanted.join(placed, on=KEY, how="anti")

    def _read(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Scores of samples, and positions of those that are to have some."""
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
        shown = rows["place"].to_list()
        usable = [
            (problem, trace, one)
            for (place, problem, trace), one in zip(traces, read, strict=True)
            if shown[place] and np.isfinite(one.entropy_T).all()
        ]
        return frame_of(rows, found), _positions(rows.filter("place"), usable)

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


def _positions(rows: pl.DataFrame, read: "list[tuple[str, Trace, Read]]") -> pl.DataFrame:
    """Positions of what was read, a text that was drawn several times once; samples without sums count as samples."""
    times = Counter((problem, trace) for problem, trace, _ in read)
    first = {(problem, trace): one.entropy_T for problem, trace, one in read}
    frame = positions_of([problem for problem, _ in times], [first[key] for key in times], list(times.values()))
    unread = Counter(rows["problem"].to_list()) - Counter(problem for problem, _, _ in read)
    more = {"problem": list(unread), "kind": [SAMPLES] * len(unread), "bin": [0] * len(unread)}
    counted = {"tokens": list(unread.values()), "entropy": [0.0] * len(unread)}
    return pl.concat([frame, pl.DataFrame({**more, **counted}, schema=POSITIONS)])


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
