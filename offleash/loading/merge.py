"""From the entries of one or more log files to one run: problems matched, samples numbered, repeats removed.

Ids in logs are of little use by themselves: two benchmarks both start at 0, one log has an id per sample, another none.
The rules below, in the order of `gather`, decide what the same problem is; what they changed is in the notes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.data.tables import PROBLEMS, Note, as_problems, question_hash
from offleash.errors import OffleashError

PROBLEM_FIELDS = ["problem", "question", "gold", "benchmark", "guess"]


@dataclass
class FilePart:
    """One file as read: its problems, and its samples without their texts (or its counts).

    Texts are left out so that logs larger than memory can be numbered and compared.
    """

    path: Path
    problems: pl.DataFrame  # PROBLEMS, distinct, as the file has them
    rows: pl.DataFrame  # of entries without the text of problem and sample, or of counts


def part_of(path: Path, frames: Iterable[pl.DataFrame]) -> FilePart:
    """The frames of one file. Texts of problems are kept once, texts of samples only as a hash, to find repeats."""
    problems, rows, read_rows = [], [], 0
    for frame in frames:
        problems.append(_problems(frame))
        slim = frame.drop("question", "gold", "guess").with_row_index("row_in_file", read_rows)
        rows.append(slim.with_columns(text=pl.col("text").hash()) if "text" in slim.columns else slim)
        read_rows += frame.height
    return FilePart(path, pl.concat(problems).unique(maintain_order=True), pl.concat(rows))


def gather(parts: Sequence[FilePart], name: str) -> tuple[pl.DataFrame, pl.DataFrame, list[Note]]:
    """One run from its files.

    Args:
        parts: The files in their order: samples of a problem in several of them are numbered file after file.
        name: The run's, for messages.

    Returns:
        The problems (schema PROBLEMS); the rows with their `index` within the problem; notes on what was changed.
    """
    notes: list[Note] = []
    parts = [_identify_by_text(_ordered_by_row(part, notes), notes) for part in _distinct_benchmarks(parts)]
    everything = pl.concat(
        [part.rows.with_columns(part=pl.lit(number, pl.UInt32)) for number, part in enumerate(parts)]
    )
    problems = pl.concat([part.problems for part in parts])
    problems, everything = _labelled(problems, everything)
    _check_ids(problems, parts)
    # From here on a problem has one id in all files.
    shared = everything.group_by("problem").agg(pl.col("part").n_unique()).filter(pl.col("part") > 1).height
    if shared:
        notes.append(
            Note(f"{shared} problems are in several of the {len(parts)} files: their samples are pooled (seeds)")
        )
    if "sample" in everything.columns:
        everything, repeat_notes = _without_repeats(everything, parts)
        notes += repeat_notes
        # Seeds add up file after file; within a file by the sample's own number, else in the order of the rows.
        everything = everything.sort("problem", "part", "sample", "row_in_file")
        everything = everything.with_columns(index=pl.int_range(pl.len(), dtype=pl.UInt32).over("problem"))
    _refuse_two_texts(problems, parts, name)
    # Files may know different things about a problem (one the question, one the gold): the first value counts.
    merged = problems.group_by("problem", maintain_order=True).agg(pl.exclude("problem").drop_nulls().first())
    return merged.select(*PROBLEMS), everything, notes


def _problems(frame: pl.DataFrame) -> pl.DataFrame:
    """The distinct problems of a frame, with the hashes of their texts."""
    distinct = frame.select(PROBLEM_FIELDS).unique(maintain_order=True)
    hashes = [None if text is None else question_hash(text) for text in distinct["question"]]
    return as_problems(distinct.with_columns(hash=pl.Series(hashes, dtype=pl.String)))


def _distinct_benchmarks(parts: Sequence[FilePart]) -> list[FilePart]:
    """Files that use the same ids (0, 1, ...) for different problems become different benchmarks, called after them."""
    problems = pl.concat(
        [part.problems.with_columns(part=pl.lit(number, pl.UInt32)) for number, part in enumerate(parts)]
    )
    identity = pl.coalesce("hash", "gold")  # without a text, another gold answer means another problem
    clash = (
        problems.filter(pl.col("benchmark").is_null() & identity.is_not_null())
        .group_by("problem")
        .agg(identity.n_unique().alias("texts"), pl.col("part").n_unique().alias("files"))
        .filter((pl.col("texts") > 1) & (pl.col("files") > 1))
    )
    if clash.is_empty():
        return list(parts)
    # Seeds of one benchmark are often files of one folder, benchmarks folders of files of one name.
    folders = len({part.path.parent for part in parts}) > 1
    return [_named(part, part.path.parent.name if folders else part.path.stem) for part in parts]


def _ordered_by_row(part: FilePart, notes: list[Note]) -> FilePart:
    """Without sample numbers that are the same in every row: that is the seed of the run, not a number of samples."""
    if "sample" not in part.rows.columns or part.rows["sample"].n_unique() > 1 or part.rows["sample"][0] is None:
        return part
    if part.rows.height == part.rows["problem"].n_unique():
        return part  # one sample per problem: the same number in each is right
    number = part.rows["sample"][0]
    notes.append(Note(f"{part.path.name}: every row has sample number {number}; rows are numbered in order instead"))
    return FilePart(part.path, part.problems, part.rows.with_columns(sample=pl.lit(None, pl.Int64)))


def _identify_by_text(part: FilePart, notes: list[Note]) -> FilePart:
    """Where every row has its own id and texts repeat, the ids are those of samples: problems go by their text."""
    texts = part.problems["hash"]
    own_ids = "sample" in part.rows.columns and part.rows["problem"].n_unique() == part.rows.height
    # At least two rows per text on average: a few questions that occur twice under two ids are two problems.
    if not own_ids or texts.null_count() or texts.n_unique() * 2 > part.problems.height:
        return part
    first = part.problems.group_by("hash", maintain_order=True).agg(label=pl.col("problem").first())
    label = part.problems.select("problem", "hash").join(first, on="hash").select("problem", "label")
    rows = part.rows.join(label, on="problem", maintain_order="left").drop("problem").rename({"label": "problem"})
    kept = part.problems.unique("hash", keep="first", maintain_order=True)
    repeats = f"every row has its own id, but only {texts.n_unique()} texts are distinct"
    text = f"{part.path.name}: {repeats}; problems are matched by text"
    notes.append(Note(text, part.rows.height))
    return FilePart(part.path, kept, rows.select(part.rows.columns))


def _named(part: FilePart, benchmark: str) -> FilePart:
    """A part whose problems without a benchmark are of this one."""
    fill = pl.col("benchmark").fill_null(pl.lit(benchmark))
    return FilePart(part.path, part.problems.with_columns(fill), part.rows.with_columns(fill))


def _labelled(problems: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ids that several benchmarks use, with the benchmark in front: aime24/0, aime25/0."""
    shared = (
        problems.select("problem", pl.col("benchmark").fill_null(""))
        .unique()
        .filter(pl.len().over("problem") > 1)["problem"]
        .unique()
    )
    if not shared.len():
        return problems, rows
    label = (
        pl.when(pl.col("problem").is_in(shared.implode()) & pl.col("benchmark").is_not_null())
        .then(pl.concat_str("benchmark", "problem", separator="/"))
        .otherwise("problem")
        .alias("problem")
    )
    return problems.with_columns(label), rows.with_columns(label)


def _without_repeats(rows: pl.DataFrame, parts: Sequence[FilePart]) -> tuple[pl.DataFrame, list[Note]]:
    """Rows that repeat a sample are kept once and counted; one sample with two contents is an error, not a choice."""
    numbered = pl.col("sample").is_not_null()
    key = ["part", "problem", "sample"]
    repeated = rows.filter(numbered).filter(pl.len().over(key) > 1)
    if repeated.is_empty():
        return rows, []
    # The same row twice is a file that was appended to itself; another text under the same number is not a repeat.
    content = ["text", "answer", "verdict", "score"]
    clash = repeated.filter(pl.struct(content).n_unique().over(key) > 1).sort(*key, "row")
    if clash.height:
        first = clash.row(0, named=True)
        same = clash.select(pl.struct(key) == pl.struct(pl.lit(first[name]).alias(name) for name in key)).to_series()
        lines = clash.filter(same)["row"].to_list()
        raise OffleashError(
            f"{parts[first['part']].path}: sample {first['sample']} of problem {first['problem']!r} is in rows "
            f"{', '.join(map(str, lines[:5]))} with different contents. If that column is not the sample "
            "number, use --map sample= to number the rows in order."
        )
    kept = rows.filter(~numbered | pl.struct(key).is_first_distinct())
    extra = repeated.filter(~pl.struct(key).is_first_distinct()).group_by("part").len().sort("part").rows()
    text = "rows that repeat a sample were counted once"
    return kept, [Note(f"{parts[number].path.name}: {text}", height, left_out=True) for number, height in extra]


def _check_ids(problems: pl.DataFrame, parts: Sequence[FilePart]) -> None:
    """Ids with replaced bytes are refused: two different ids may have become the same."""
    lost = problems.filter(pl.col("problem").str.contains("\ufffd", literal=True))
    if lost.height:
        raise OffleashError(
            f"{parts[0].path}: the id {lost['problem'][0]!r} has bytes that are not UTF-8, so different problems would "
            "look the same. Save the file as UTF-8."
        )


def _refuse_two_texts(problems: pl.DataFrame, parts: Sequence[FilePart], name: str) -> None:
    """One id with two texts after all of the above: counting both as one problem would be wrong."""
    clash = problems.filter(pl.col("hash").is_not_null()).unique(["problem", "hash"], maintain_order=True)
    clash = clash.filter(pl.len().over("problem") > 1)
    if clash.is_empty():
        return
    label = clash["problem"][0]
    texts = [text[:60] for text in clash.filter(pl.col("problem") == label)["question"].to_list()[:2]]
    raise OffleashError(
        f"{name}: problem {label!r} has two different texts ({texts[0]!r} and {texts[1]!r}) in "
        f"{', '.join(sorted({part.path.name for part in parts})[:3])}. Map the right id with --map problem=COLUMN, "
        "or the benchmark with --map benchmark=COLUMN."
    )
