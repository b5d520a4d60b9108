"""Problems from a user's file: any table with questions and answers, verl and TRL data sets, copies of benchmarks."""

from collections.abc import Mapping
from pathlib import Path

from offleash.data.notes import Note
from offleash.errors import OffleashError
from offleash.files.columns import all_columns, chosen_columns
from offleash.files.problems_rows import NumberedRow, read_rows, shown
from offleash.problems.benchmark import Benchmark
from offleash.problems.problem import Loaded, Problem, table
from offleash.problems.record import problem_of

Columns = Mapping[str, str]


def read_problems(path: Path, *, columns: Columns | None = None, benchmark: Benchmark | None = None) -> Loaded:
    """Every problem of a file; with a benchmark, its verifier, guess floor, prompt and derivations apply."""
    rows = read_rows(path)
    known = all_columns(row.values for row in rows)
    chosen = chosen_columns(known, columns or {}, benchmark.columns if benchmark else {})
    if "question" not in chosen:
        raise OffleashError(
            f"{path} has the columns {', '.join(known[:20])}; none of them is known as a question. "
            "Name it with --map question=COLUMN."
        )
    kept = [row for row in rows if benchmark is None or benchmark.keep is None or benchmark.keep(row.values)]
    if not kept and benchmark is not None:
        raise OffleashError(f"{path}: none of its {len(rows)} rows belongs to {benchmark.name} ({benchmark.about}).")
    found = _distinct(path, kept, chosen, benchmark)
    left, twice = len(rows) - len(kept), len(kept) - len(found)
    rows_of = {one.problem: number for number, one in found}
    notes = _notes(path, () if benchmark else known, chosen, left, twice)
    return Loaded(table(one for _, one in found), notes, rows_of)


def _distinct(
    path: Path, rows: list[NumberedRow], chosen: Columns, benchmark: Benchmark | None
) -> list[tuple[int, Problem]]:
    """The problems in the order of the file with their rows, each once; two that share an id and differ are refused."""
    found: dict[str, tuple[int, Problem]] = {}
    for place, row in enumerate(rows):
        try:
            one = problem_of(path, row, place, chosen, benchmark)
        except OffleashError as error:
            raise OffleashError(f"{path}: row {row.number}: {error}") from None
        number, earlier = found.setdefault(one.problem, (row.number, one))
        if earlier != one:
            raise OffleashError(
                f"{path}: rows {number} and {row.number} are both called {shown(one.problem)} and differ. "
                "Give each problem its own id, or number them with --map problem= (nothing after the sign)."
            )
    return list(found.values())


def _notes(path: Path, known: tuple[str, ...], chosen: Columns, left: int, twice: int) -> tuple[Note, ...]:
    pairs = ", ".join(f"{ours} <- {theirs}" for ours, theirs in chosen.items())
    used = {part for theirs in chosen.values() for part in (theirs, theirs.partition(".")[0])}
    unused = [name for name in known if name not in used and "." not in name]
    rest = f"; not used: {', '.join(unused[:12])}" if unused else ""
    notes = [Note(f"{path.name}: read {pairs}{rest}. --map NAME=COLUMN changes it.")]
    if left:
        notes.append(Note(f"{path.name}: rows that do not belong to the benchmark were left out.", left, left_out=True))
    if twice:
        notes.append(
            Note(f"{path.name}: rows that repeat an earlier problem word for word were left out.", twice, True)
        )
    return tuple(notes)
