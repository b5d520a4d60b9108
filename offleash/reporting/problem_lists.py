"""Problems out of a comparison: lists in the terminal, the whole table as CSV, and files to draw from or to train on.

A list is taken from the table of comparing/per_problem.py, so its numbers are those of the JSON and the page.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from offleash.comparing.compare import Comparison
from offleash.comparing.per_problem import FELL, ROSE, detail, problem_table
from offleash.comparing.sentences import changed_rates_text, class_list_text
from offleash.errors import OffleashError
from offleash.problems.problem import line
from offleash.problems.read import default_prompt
from offleash.render.escape import clean, clipped, spreadsheet_text
from offleash.render.numbers import counted
from offleash.render.output import write_bytes
from offleash.stats.significance import FDR, TIE_FACTOR

CLASS_OF_LIST = {"lost": "S", "gained": "E"}  # lists by class; the others are by the change of the rate
QUESTION_CHARACTERS = 70  # of a question in the terminal
# What the first run may lack and the other know: the reader of a log keeps no prompts, tests or choices.
FILLED_COLUMNS = ("guess", "verifier", "prompt", "details", "images")


@dataclass(frozen=True)
class ProblemList:
    """Some problems of a comparison, in the order of their p-values."""

    name: str  # lost, gained, fell or rose
    comparison: Comparison
    rows: pl.DataFrame  # of `problem_table`
    path: Path | None = None  # the file that they were written to
    notes: tuple[str, ...] = ()  # on what the file lacks

    @property
    def by_class(self) -> bool:
        """Whether it is a list of a class, lost or gained, and not of rates that changed."""
        return self.name in CLASS_OF_LIST

    def to_json(self) -> dict[str, object]:
        """The section `listed` of the JSON."""
        path = None if self.path is None else str(self.path)
        return {"list": self.name, "ids": self.rows["id"].to_list(), "path": path}


def problem_list(comparison: Comparison, name: str) -> ProblemList:
    """The problems that were lost or gained, or whose rate fell or rose significantly; smallest p first."""
    table, reasons = problem_table(comparison), detail(comparison).reasons
    if name in CLASS_OF_LIST:
        is_listed, p = pl.col("class") == CLASS_OF_LIST[name], "p_class"
        successes = pl.col("c_before" if name == "lost" else "c_after")
    elif name in (FELL, ROSE):
        if "p" in reasons:
            raise OffleashError(f"Rates cannot be tested: {reasons['p']}. Use --list lost or --list gained.")
        is_listed, p, successes = pl.col("change") == name, "p", pl.col("c_before") + pl.col("c_after")
    else:
        raise AssertionError(name)  # the declaration of the option has refused it
    # without a test the one with most successes is first
    order = [pl.col(p).fill_null(2.0), -successes.cast(pl.Int64), pl.col("id")]
    return ProblemList(name, comparison, table.filter(is_listed).sort(order))


# In the terminal.


def show_list(console: Console, problems: ProblemList) -> None:
    """Print a list: ids as `offleash show` takes them, counts of both runs, p, q and the beginning of the question."""
    console.print(Text(list_title(problems)))
    if problems.rows.height:
        console.print(_table(problems))
    reason = detail(problems.comparison).reasons.get("p_class" if problems.by_class else "p")
    if reason:
        console.print(Text(f"No p-values: {reason}.", style="dim"))
    for note in problems.notes:
        console.print(Text(f"! {note}", style="yellow"))
    if problems.path is not None:
        console.print(Text(f"Written to {problems.path}"), soft_wrap=True)


def list_title(problems: ProblemList) -> str:
    """What is listed, in a sentence."""
    rows, names = problems.rows, (clean(problems.comparison.change.before), clean(problems.comparison.change.after))
    if not problems.by_class:
        return changed_rates_text(problems.name, rows.height, *names)
    significant = int((rows["q_class"].fill_null(1.0) <= FDR * TIE_FACTOR).sum())
    tested = None if rows["p_class"].null_count() else significant
    return class_list_text(problems.comparison, problems.name, rows.height, tested, *names)


def _table(problems: ProblemList) -> Table:
    change, p, q = problems.comparison.change, *(("p_class", "q_class") if problems.by_class else ("p", "q"))
    rows = problems.rows
    benchmarks = rows["benchmark"].n_unique() > 1
    asked = rows["question"].null_count() < rows.height
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # whole, since it is to be pasted; the question gives way first
    longest = max((len(clean(name)) for name in rows["id"]), default=0)
    table.add_column("problem", overflow="fold", min_width=min(max(longest, len("problem")), 28))
    if benchmarks:
        table.add_column("benchmark", overflow="fold")
    digits = max((len(f"{n:,}") for n in (*rows["n_before"], *rows["n_after"])), default=0)
    for name in (clean(change.before), clean(change.after)):
        table.add_column(name, justify="right", min_width=2 * digits + len(" of "))
    for name in ("p", "q"):
        table.add_column(name, justify="right", no_wrap=True)
    if asked:
        table.add_column("question", no_wrap=True, overflow="ellipsis")
    for row in rows.iter_rows(named=True):
        counts = [f"{row[f'c_{side}']:,} of {row[f'n_{side}']:,}" for side in ("before", "after")]
        question = clipped(clean((row["question"] or "")[: 4 * QUESTION_CHARACTERS]), QUESTION_CHARACTERS)
        cells = [clean(row["id"]), *([clean(row["benchmark"] or "")] if benchmarks else []), *counts]
        table.add_row(*cells, _p_text(row[p]), _p_text(row[q]), *([question] if asked else []))
    return table


def _p_text(p: float | None) -> str:
    return "-" if p is None else f"{p:.2g}"


# As files: a table for spreadsheets and data frames, and problems for draw, train, TRL and verl.


def write_table(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write every problem as CSV; of several comparisons with a first column `run`.

    Ids, questions and golds come from models and logs: a text that a spreadsheet would run as a formula gets a leading
    apostrophe, which spreadsheets hide.
    """
    tables = [problem_table(comparison) for comparison in comparisons]
    if len(comparisons) > 1:
        tables = [
            table.select(pl.lit(comparison.change.after).alias("run"), pl.all())
            for table, comparison in zip(tables, comparisons, strict=True)
        ]
    all_rows = pl.concat(tables)
    texts = [name for name, kind in all_rows.schema.items() if kind == pl.String]
    safe_texts = {name: [None if text is None else spreadsheet_text(text) for text in all_rows[name]] for name in texts}
    all_rows = all_rows.with_columns(pl.Series(name, values, dtype=pl.String) for name, values in safe_texts.items())
    write_bytes(path, all_rows.write_csv().encode(), "--csv")


def write_problems(problems: ProblemList, path: Path) -> ProblemList:
    """Write the problems of a list with question and gold answer, as JSON lines or Parquet by the file's ending.

    A row has the columns of `offleash problems` and of TRL (`prompt` as messages, `solution`, `answer`) and verl
    (`data_source`, `reward_model`, `extra_info`, where the counts and p-values of this comparison are).
    """
    known = _known_columns(problems.comparison)
    rows: list[dict[str, Any]] = []
    without_question, no_gold = 0, 0
    for measurements in problems.rows.iter_rows(named=True):
        problem = known[measurements["id"]]
        if not problem["question"]:
            without_question += 1
            continue
        no_gold += problem["gold"] is None and problem["details"] is None
        rows.append(_row(problem, measurements, path.stem, problems.name, len(rows)))
    if without_question and not rows:
        raise _without_questions(problems, path)
    notes = []
    if without_question:
        notes.append(f"{counted(without_question, 'problem')} without a question: left out of {path.name}.")
    if no_gold:
        notes.append(f"{counted(no_gold, 'problem')} without a gold answer, which draw and train need.")
    # a column that no problem has would be one of nulls, whose type no reader can know
    used = [name for name in (rows[0] if rows else {}) if any(row[name] is not None for row in rows)]
    rows = [{name: row[name] for name in used} for row in rows]
    write_bytes(path, _parquet(rows) if path.suffix.lower() == ".parquet" else _json_lines(rows), "--out")
    return ProblemList(problems.name, problems.comparison, problems.rows, path, tuple(notes))


def _known_columns(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """All that either run knows of each problem, by the id of the first."""
    problems = comparison.counted.problems
    after_problems = comparison.after.problems.rename({"problem": "own"}).join(comparison.counted.own[1], on="own")
    joined = problems.join(after_problems.select("problem", *FILLED_COLUMNS), on="problem", how="left", suffix="_other")
    filled_rows = joined.with_columns(pl.coalesce(name, f"{name}_other").alias(name) for name in FILLED_COLUMNS)
    return {row["problem"]: row for row in filled_rows.select(problems.columns).iter_rows(named=True)}


def _row(problem: dict[str, Any], row: Mapping[str, Any], source: str, name: str, index: int) -> dict[str, Any]:
    """One problem as our reader, TRL and verl take it; `details` is JSON text, since its shape differs by verifier."""
    details = json.loads(problem["details"]) if problem["details"] else {}
    prompt = problem["prompt"] or default_prompt(problem["question"], details, problem["verifier"])
    own_columns: dict[str, Any] = dict.fromkeys(
        ("problem", "question", "gold", "benchmark", "guess", "verifier", "images")
    )
    own_columns |= {key: value for key, value in line(problem).items() if key in own_columns}
    counts = {key: value for key, value in row.items() if key not in ("id", "benchmark", "question", "gold")}
    return own_columns | {
        "details": problem["details"],
        "prompt": [{"role": "user", "content": prompt}],
        "solution": problem["gold"],
        "answer": problem["gold"],
        "data_source": problem["benchmark"] or source,
        "reward_model": {"style": "rule", "ground_truth": problem["gold"]},
        "extra_info": {"index": index, "split": name, "problem": problem["problem"], **counts},
    }


def _json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(out)
    return out.getvalue()


def _without_questions(problems: ProblemList, path: Path) -> OffleashError:
    """The refusal of a file of problems that nobody could read: counts name problems and do not ask them."""
    change = problems.comparison.change
    return OffleashError(
        f"{change.before!r} and {change.after!r} hold no questions, so no problem can be written to {path}. "
        "Compare run folders or logs with questions, or use --csv FILE for the counts."
    )
