"""From the entries of one or more log files to one run: problems identified, samples numbered, repeats removed.

What the same problem is, in the order of these rules:

1. The tool names its content (`identity`: lm-eval's doc_hash): equal names within a benchmark are one problem.
2. The log has ids: an id with one content (data/content.py) is one problem. Two ids are two problems even where their
   contents are equal, and one id with two contents (two benchmarks that both start at 0) is two problems too.
3. The log has no ids: the content alone decides.

What was split or put together on the way is in the notes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from offleash.data.content import CONTENT, HASHED, with_content
from offleash.data.tables import PROBLEMS, Note, as_problems, question_hash
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.logs.format import Ids

# What a file says about a problem. Rows that agree in all of it have the same `code`.
PROBLEM_FIELDS = ["problem", "question", "gold", "benchmark", "guess", "identity", "contents"]
CHARACTERS_SHOWN = 60  # characters of a text in a note
VARYING_GOLD_ROWS = 8  # rows of problems with varying golds, from which on the verdicts say what they are
REPEATED_CONTENTS = 10  # distinct contents, each there twice or more: too many for documents that share a few sentences


@dataclass
class FilePart:
    """One file as read: its problems, and its samples without their texts (or its counts).

    Texts are left out so that logs larger than memory can be numbered and compared.
    """

    path: Path
    problems: pl.DataFrame  # code, split and PROBLEMS: distinct, as the file has them
    rows: pl.DataFrame  # code, and entries without the fields of the problem and the text of the sample; or counts
    ids: Ids = Ids.PROBLEM
    gold_guessed: bool = False  # see Log
    repeated_rows: int = 0  # rows at its beginning that repeat another file, and were left out
    format: str = ""


def file_part(
    path: Path,
    frames: Iterable[pl.DataFrame],
    ids: Ids = Ids.PROBLEM,
    gold_guessed: bool = False,
    repeated_rows: int = 0,
    format_name: str = "",
) -> FilePart:
    """The frames of one file. Texts of problems are kept once, texts of samples only as a hash, to find repeats."""
    problems, rows, read_rows = [], [], 0
    for frame in frames:
        frame = frame.with_columns(code=pl.struct(*PROBLEM_FIELDS, "split").hash())
        problems.append(frame.select("code", "split", *PROBLEM_FIELDS).unique("code", maintain_order=True))
        without_problem_fields = frame.drop(name for name in PROBLEM_FIELDS if name != "problem").with_row_index(
            "row_in_file", read_rows
        )
        rows.append(
            without_problem_fields.with_columns(text=pl.col("text").hash())
            if "text" in without_problem_fields.columns
            else without_problem_fields
        )
        read_rows += frame.height
    distinct = pl.concat(problems).unique("code", maintain_order=True)
    hashes = [None if text is None else question_hash(text) for text in distinct["question"]]
    table = as_problems(distinct.with_columns(hash=pl.Series(hashes, dtype=pl.String)))
    problems_table = pl.concat([distinct.select("code", "split"), table], how="horizontal")
    return FilePart(path, problems_table, pl.concat(rows), ids, gold_guessed, repeated_rows, format_name)


def without_first_rows(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The frames of a file without its first rows; each time it is read, so that its entries keep their places."""
    return (frame.filter(pl.col("row") > rows) if rows else frame for frame in frames)


@dataclass(frozen=True)
class MergedRuns:
    """The runs of some files, by the value of the column that splits them (None: one run)."""

    problems: dict[str | None, pl.DataFrame]  # PROBLEMS
    rows: dict[str | None, pl.DataFrame]  # with the `index` of each sample within its problem
    notes: list[Note]


def merge_parts(parts: Sequence[FilePart], name: str) -> MergedRuns:
    """The runs of these files; all of them at once, because a training run of 300 steps is 300 runs.

    Args:
        parts: The files in their order: samples of a problem in several of them are numbered file after file.
        name: The run's, for messages.
    """
    notes: list[Note] = []
    parts = _without_model_answers([_ordered_by_row(part, notes) for part in parts], notes)
    rows = pl.concat([part.rows.with_columns(part=pl.lit(number, pl.UInt32)) for number, part in enumerate(parts)])
    problems = pl.concat(
        [part.problems.with_columns(part=pl.lit(number, pl.UInt32)) for number, part in enumerate(parts)]
    )
    problems = with_content(problems).with_columns(problem=_own_ids(problems, parts, notes))
    problems = _distinct_benchmarks(problems, parts)
    problems = _with_keys(_with_missing_fields(problems), parts)
    problems = _with_distinct_ids(problems, parts, notes)
    _check_ids(problems, parts, name)
    label = problems.select("part", "code", "problem")
    rows = rows.drop("problem").join(label, on=["part", "code"], maintain_order="left").drop("code")
    # From here on a problem has one id in all files of a run.
    shared_problems = rows.group_by("split", "problem").agg(pl.col("part").n_unique()).filter(pl.col("part") > 1).height
    if shared_problems:
        notes.append(
            Note(
                f"{shared_problems} problems are in several of the {len(parts)} files: their samples are pooled "
                "(as from different seeds)"
            )
        )
    if "sample" in rows.columns:
        rows, repeat_notes = _without_repeats(rows, parts)
        notes += repeat_notes
        # Seeds add up file after file; within a file by the sample's own number, else in the order of the rows.
        rows = rows.sort("problem", "part", "sample", "row_in_file")
        rows = rows.with_columns(index=pl.int_range(pl.len(), dtype=pl.UInt32).over("split", "problem"))
    # Files may know different things about a problem (one the question, one the gold): the first value counts.
    merged = problems.group_by("split", "problem", maintain_order=True).agg(
        pl.col(*PROBLEMS).exclude("problem").drop_nulls().first()
    )
    return MergedRuns(_by_split(merged.select("split", *PROBLEMS)), _by_split(rows), notes)


def _by_split(frame: pl.DataFrame) -> dict[str | None, pl.DataFrame]:
    parts = frame.partition_by("split", as_dict=True, maintain_order=True)
    return {value: part.drop("split") for (value,), part in parts.items()}


def _ordered_by_row(part: FilePart, notes: list[Note]) -> FilePart:
    """Without sample numbers that are the same in every row: that is the seed of the run, not a number of samples."""
    if "sample" not in part.rows.columns or part.rows["sample"].n_unique() > 1 or part.rows["sample"][0] is None:
        return part
    if part.rows.height == part.rows["code"].n_unique():
        return part  # one sample per problem: the same number in each is right
    number = part.rows["sample"][0]
    notes.append(Note(f"{part.path.name}: every row has sample number {number}; rows are numbered in order instead"))
    return replace(part, rows=part.rows.with_columns(sample=pl.lit(None, pl.Int64)))


def _without_model_answers(parts: Sequence[FilePart], notes: list[Note]) -> list[FilePart]:
    """The files without golds that are the model's answers: a column `answer` may hold either.

    Golds do not vary within a problem, and answers decide the verdict. So where the values vary under one id (or under
    one text, if ids may be those of samples), they are taken for golds if equal values got different verdicts, if
    different ones are correct, or if there are too few rows to say.
    """
    tables = [
        part.rows.select("code", "verdict").join(
            part.problems.select("code", "split", "gold", key="problem" if part.ids is Ids.PROBLEM else "hash"),
            on="code",
        )
        for part in parts
        if part.gold_guessed and "verdict" in part.rows.columns
    ]
    rows = (
        pl.concat(tables) if tables else pl.DataFrame(schema={"split": pl.String, "key": pl.String, "gold": pl.String})
    )
    varying = rows.filter(pl.col("gold").n_unique().over("split", "key") > 1)
    if varying.height < VARYING_GOLD_ROWS:
        return list(parts)
    correct = varying.filter(pl.col("verdict") == Verdict.CORRECT)
    has_both_verdicts = varying.select((pl.col("verdict").n_unique().over("split", "key", "gold") > 1).any()).item()
    if has_both_verdicts or correct.select((pl.col("gold").n_unique().over("split", "key") > 1).any()).item():
        return list(parts)
    reason = (
        "values of the column answer vary within a problem and match the verdict, so they are not treated as gold "
        "answers"
    )
    text = f"{reason} (--map gold=answer if they are)"
    notes.append(Note(text, varying.height, warning=True, code="answer_column"))
    no_gold = pl.lit(None, pl.String).alias("gold")
    return [
        replace(part, problems=part.problems.with_columns(no_gold)) if part.gold_guessed else part for part in parts
    ]


def _own_ids(problems: pl.DataFrame, parts: Sequence[FilePart], notes: list[Note]) -> pl.Series:
    """The ids of problems; of files whose ids name samples, the hash of the text, as where there are no ids."""
    by_text: list[int] = []
    for number, part in enumerate(parts):
        if part.ids is Ids.PROBLEM or "sample" not in part.rows.columns or part.problems["hash"].null_count():
            continue
        if part.rows.select(pl.struct("split", "problem").n_unique()).item() < part.rows.height:
            continue  # an id of several rows is not that of a sample
        content = part.problems.select(pl.struct("split", "hash", "gold", "contents").alias("content"))["content"]
        if part.ids is Ids.GROUP:
            by_text.append(number)
        elif _drawn_repeatedly(content, part.problems.select(pl.struct("split", "hash").n_unique()).item()):
            by_text.append(number)
            reason = f"every row has its own id, but only {content.n_unique()} problems are distinct"
            text = f"{part.path.name}: {reason}; the ids are treated as sample ids"
            notes.append(Note(text, part.rows.height, warning=True, code="ids_of_samples"))
    sample_ids = problems["part"].is_in(by_text)
    ids = pl.when(sample_ids).then("hash").otherwise(_whole_number_ids(problems["part"]))
    return problems.select(ids.alias("problem")).to_series()


def _whole_number_ids(part: pl.Series) -> pl.Expr:
    """The ids without the fraction of numbers that a table wrote as 3.0, if all ids of a file are such numbers.

    A column of whole numbers with a gap is one of floats in pandas, and its CSV has 3.0 where another file has 3.
    """
    has_id = pl.col("problem").ne_missing(pl.col("hash"))  # other rows have no id
    floats = (pl.col("problem").str.contains(r"^-?\d+\.0$") | ~has_id).all().over(part)
    return pl.when(floats & has_id).then(pl.col("problem").str.strip_suffix(".0")).otherwise("problem")


def _drawn_repeatedly(content: pl.Series, texts: int) -> bool:
    """Whether rows with equal contents are samples of one problem, where every row has its own id.

    The rows may also be documents that ask the same sentence about different things, whose stories the log does not
    keep. These come in no order and in no equal numbers, there are few distinct sentences, and contents differ in their
    golds alone. A single content says nothing either way, so that its ids are believed.

    Args:
        content: Of each row.
        texts: Distinct texts among them.
    """
    counts = content.value_counts()["count"]
    if counts.min() == 1 or len(counts) == 1 or texts < len(counts):
        return False
    blocks = content.rle_id().n_unique()
    return counts.n_unique() == 1 or blocks == len(counts) or len(counts) >= REPEATED_CONTENTS


def _distinct_benchmarks(problems: pl.DataFrame, parts: Sequence[FilePart]) -> pl.DataFrame:
    """Files that use the same ids (0, 1, ...) for different problems become different benchmarks, called after them."""
    content = pl.coalesce("hash", "gold_key")  # without a text, another gold answer means another problem
    conflicting = (
        problems.filter(pl.col("benchmark").is_null() & pl.col("identity").is_null() & content.is_not_null())
        .group_by("split", "problem")
        .agg(content.n_unique().alias("contents"), pl.col("part").n_unique().alias("files"))
        .filter((pl.col("contents") > 1) & (pl.col("files") > 1))
    )
    grouped = {number for number, part in enumerate(parts) if part.ids is Ids.GROUP}  # these ids never go beyond a file
    if conflicting.is_empty() or grouped:
        return problems
    # Seeds of one benchmark are often files of one folder, benchmarks folders of files of one name.
    folders = len({part.path.parent for part in parts}) > 1
    names = [part.path.parent.name if folders else part.path.stem for part in parts]
    benchmark_name = pl.col("part").replace_strict(list(range(len(parts))), names, return_dtype=pl.String)
    return problems.with_columns(pl.coalesce("benchmark", benchmark_name).alias("benchmark"))


def _with_missing_fields(problems: pl.DataFrame) -> pl.DataFrame:
    """Fields that one row of a problem lacks, from the rows of the same id that have them, if these agree.

    So a file without gold answers is pooled with one that has them; where the others disagree, nothing is guessed.
    """

    def fill_missing(fields: Sequence[str], group: Sequence[str]) -> list[pl.Expr]:
        return [
            pl.when(pl.col(name).is_null() & (pl.col(name).drop_nulls().n_unique().over(group) == 1))
            .then(pl.col(name).drop_nulls().first().over(group))
            .otherwise(name)
            .alias(name)
            for name in fields
        ]

    group = ["split", "benchmark", "problem"]
    problems = problems.with_columns(fill_missing(["hash"], group))
    problems = problems.with_columns(fill_missing([name for name in CONTENT if name != "hash"], [*group, "hash"]))
    # A row without an id, whose text stands in for it, is of the only problem with an id that has its content.
    explicit_id = pl.when(pl.col("problem") != pl.col("hash")).then("problem")
    content = ["split", "benchmark", *CONTENT]
    has_single_id = explicit_id.is_null() & (explicit_id.drop_nulls().n_unique().over(content) == 1)
    return problems.with_columns(
        problem=pl.when(has_single_id).then(explicit_id.drop_nulls().first().over(content)).otherwise("problem")
    )


def _with_keys(problems: pl.DataFrame, parts: Sequence[FilePart]) -> pl.DataFrame:
    """With a `key` that is equal where, by the rules above, the problem is."""
    grouped = pl.col("part").is_in([number for number, part in enumerate(parts) if part.ids is Ids.GROUP])
    contents = pl.any_horizontal(pl.col(*CONTENT).is_not_null())
    # A group's id is new in every file: the n-th group with a content is the n-th in every other file. Without any
    # content, groups of two files have nothing in common.
    problems = problems.with_row_index("place")
    first_place = pl.col("place").min().over("part", "problem")
    occurrence = first_place.rank("dense").over("split", "part", "benchmark", *CONTENT)
    problems = problems.with_columns(
        id=pl.when(~grouped)
        .then("problem")
        .when(contents)
        .then(occurrence.cast(pl.String))
        .otherwise(pl.concat_str("part", "problem", separator=" ")),
        problem=pl.when(grouped).then(pl.coalesce("hash", "problem")).otherwise("problem"),
    )
    key_by_identity = pl.struct("split", "benchmark", "identity").hash()
    key_by_content = pl.struct("split", "benchmark", "id", *CONTENT).hash()
    return problems.with_columns(
        key=pl.when(pl.col("identity").is_not_null()).then(key_by_identity).otherwise(key_by_content)
    ).drop("place")


def _with_distinct_ids(problems: pl.DataFrame, parts: Sequence[FilePart], notes: list[Note]) -> pl.DataFrame:
    """With ids that are different where the problems are: aime24/0 and aime25/0, 3 and 3#2."""
    # One id per problem first: the same document may have another number in another file.
    problems = problems.with_columns(pl.col("problem").first().over("split", "key"))
    is_shared = pl.col("benchmark").fill_null("").n_unique().over("split", "problem") > 1
    label = pl.concat_str("benchmark", "problem", separator="/")
    problems = problems.with_columns(
        pl.when(is_shared & pl.col("benchmark").is_not_null()).then(label).otherwise("problem").alias("problem")
    )
    distinct = problems.unique(["split", "key"], keep="first", maintain_order=True)
    conflicting = distinct.filter(pl.len().over("split", "problem") > 1)
    _note_equal_texts(distinct, parts, notes)
    if conflicting.is_empty():
        return problems
    used_ids = set(distinct["problem"])
    occurrences: dict[tuple[str | None, str], int] = {}
    names: list[str] = []
    for split, label_text in conflicting.select("split", "problem").rows():
        occurrence = occurrences[split, label_text] = occurrences.get((split, label_text), 0) + 1
        while occurrence > 1 and f"{label_text}#{occurrence}" in used_ids:  # an id of the log may look like ours
            occurrence += 1
        names.append(label_text if occurrence == 1 else f"{label_text}#{occurrence}")
        occurrences[split, label_text] = occurrence
    renamed = conflicting.select("split", "key").with_columns(label=pl.Series(names, dtype=pl.String))
    _note_ambiguous_ids(conflicting, notes)
    problems = problems.join(renamed, on=["split", "key"], how="left", nulls_equal=True, maintain_order="left")
    return problems.with_columns(pl.coalesce("label", "problem").alias("problem")).drop("label")


def _note_ambiguous_ids(conflicting: pl.DataFrame, notes: list[Note]) -> None:
    """Note that several problems share an id (or a text, without ids), and which field keeps them apart."""
    fields = {"hash": "text", "gold_key": "gold answer", **{f"{name}_hash": name for name in HASHED}}
    groups = conflicting.group_by("split", "problem", maintain_order=True)
    counts = groups.agg(pl.len().alias("problems"), *(pl.col(name).drop_nulls().n_unique() for name in fields))
    differing_fields = [word for name, word in fields.items() if (counts[name] > 1).any()]
    first = conflicting.row(0, named=True)
    by_text = first["problem"] == first["hash"]
    ids = counts["problem"].n_unique()
    subject = "One text is" if by_text else "One id is"
    used_text = f"{subject} used" if ids == 1 else f"{ids} {'texts' if by_text else 'ids'} are used"
    text = f" for several problems (first: {_short_text(first['question'] or first['problem'])})"
    notes.append(
        Note(
            f"{used_text}{text}; {conflicting.height} problems are kept apart "
            f"by {' and '.join(differing_fields) or 'their order'}",
            warning=True,
            code="problems_split",
        )
    )


def _note_equal_texts(distinct: pl.DataFrame, parts: Sequence[FilePart], notes: list[Note]) -> None:
    """Note that problems with different ids have the same text, so that nobody takes them for repeats."""
    texts = distinct.filter(pl.col("hash").is_not_null() & (pl.col("problem") != pl.col("hash")))
    repeated = texts.filter(pl.len().over("split", "benchmark", "hash") > 1)
    if repeated.is_empty():
        return
    first = repeated.row(0, named=True)
    same_text_count = repeated.filter(pl.col("hash") == first["hash"]).height
    tables = all(part.format in ("generic", "counts") for part in parts)  # the columns of other formats are fixed
    hint = " (--map problem= reads equal texts as samples of one problem)" if tables else ""
    notes.append(
        Note(
            f"{repeated.height} problems share their text with another "
            f"({_short_text(first['question'])}: {same_text_count} of them) and are kept apart by their ids{hint}",
            warning=True,
            code="texts_shared",
        )
    )


def _short_text(text: str | None) -> str:
    line = " ".join((text or "").split())
    return repr(line if len(line) <= CHARACTERS_SHOWN else f"{line[: CHARACTERS_SHOWN - 3]}...")


def _without_repeats(rows: pl.DataFrame, parts: Sequence[FilePart]) -> tuple[pl.DataFrame, list[Note]]:
    """Rows that repeat a sample are kept once and counted; one sample with two contents is an error, not a choice."""
    is_numbered = pl.col("sample").is_not_null()
    key = ["split", "part", "problem", "sample"]
    repeated = rows.filter(is_numbered).filter(pl.len().over(key) > 1)
    if repeated.is_empty():
        return rows, []
    # The same row twice is a file that was appended to itself; another text under the same number is not a repeat.
    content = ["text", "answer", "verdict", "score"]
    conflicting = repeated.filter(pl.struct(content).n_unique().over(key) > 1).sort(*key, "row")
    if conflicting.height and (positions := _parts_numbered_by_problem(rows, conflicting)):
        renumbered = pl.when(~pl.col("part").is_in(positions)).then("sample").alias("sample")
        kept, notes = _without_repeats(rows.with_columns(renumbered), parts)
        reason = (
            "the column read as sample number is the same in all rows of a problem; rows are numbered in order instead"
        )
        return kept, [*(Note(f"{parts[number].path.name}: {reason}") for number in positions), *notes]
    if conflicting.height:
        first = conflicting.row(0, named=True)
        duplicates = conflicting.filter(pl.col(name).eq_missing(pl.lit(first[name])) for name in key)
        lines = duplicates["row"].to_list()
        raise OffleashError(
            f"{parts[first['part']].path}: sample {first['sample']} of problem {first['problem']!r} is in rows "
            f"{', '.join(map(str, lines[:5]))} with different contents. If that column is not the sample "
            "number, use --map sample= to number the rows in order."
        )
    kept = rows.filter(~is_numbered | pl.struct(key).is_first_distinct())
    dropped_rows = repeated.filter(~pl.struct(key).is_first_distinct()).group_by("part").len().sort("part").rows()
    text = "rows that repeat a sample were counted once"
    return kept, [Note(f"{parts[number].path.name}: {text}", height, left_out=True) for number, height in dropped_rows]


def _parts_numbered_by_problem(rows: pl.DataFrame, conflicting: pl.DataFrame) -> list[int]:
    """Files with different samples under one number whose numbers do not vary within any problem: `index` of a row."""
    within = rows.filter(pl.col("part").is_in(conflicting["part"].unique().implode())).group_by(
        "part", "split", "problem"
    )
    varies = within.agg((pl.col("sample").n_unique() > 1).alias("varies")).group_by("part").agg(pl.col("varies").any())
    return varies.filter(~pl.col("varies"))["part"].sort().to_list()


def _check_ids(problems: pl.DataFrame, parts: Sequence[FilePart], name: str) -> None:
    """Ids with replaced bytes are refused: two different ids may have become the same."""
    lost = problems.filter(pl.col("problem").str.contains("\ufffd", literal=True))
    if lost.height:
        raise OffleashError(
            f"{name}: {parts[lost['part'][0]].path}: the id {lost['problem'][0]!r} has bytes that are not UTF-8, so "
            "different problems would look the same. Save the file as UTF-8."
        )
