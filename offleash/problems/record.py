"""One row of a file as a problem: its own columns, or what its benchmark makes of them."""

import json
from collections.abc import Mapping
from pathlib import Path

from offleash.errors import OffleashError
from offleash.files.columns import value_at
from offleash.files.problems_rows import NumberedRow
from offleash.problems.benchmark import Benchmark, Derived, Fields
from offleash.problems.boxed import after_hashes, last_boxed, without_thousands
from offleash.problems.pictures import images_of
from offleash.problems.problem import GOLDLESS, Problem
from offleash.problems.prompts import prompt
from offleash.problems.values import asked, choices_of, gold_of, letter, number_of, object_of, text_of

Columns = Mapping[str, str]
Cells = Mapping[str, object]
ASKED_ALREADY = ("\\boxed", "<answer>", "####")  # a question that says itself how to answer is asked as it stands
STYLES = {"choice": "choice", "number": "number", "string": "tagged", "countdown": "tagged", "program": "plain"}


def problem_of(path: Path, row: NumberedRow, place: int, chosen: Columns, benchmark: Benchmark | None) -> Problem:
    """The problem of a row; errors say what is wrong with it, not where it stands."""
    cells = {ours: value_at(row.values, theirs) for ours, theirs in chosen.items()}
    question = asked(cells["question"], "question")
    if question is None:
        raise OffleashError(f"the question ({chosen['question']}) is empty. Fill it in, or delete the row.")
    gold, extra = _gold(cells, row, chosen, joined=benchmark is not None)
    fields, named = Fields(question, gold), text_of(cells.get("verifier"), "verifier")
    if benchmark is None or named is not None:  # a row that names its verifier has nothing left to derive
        made, style, floor = _derived(fields, cells, extra), None, None
        verifier = named or made.verifier
    else:
        made, style, floor = benchmark.derive(fields, row.values), benchmark.prompt, benchmark.guess
        verifier = made.verifier or benchmark.verifier
    if made.gold is None and verifier not in GOLDLESS:
        wanted = chosen.get("gold", "gold, answer, solution, ...")
        raise OffleashError(f"there is no answer ({wanted}). Fill it in, or name its column with --map gold=COLUMN.")
    details = _storable({**made.details, **object_of(cells.get("details"), "details")})
    given = _chance(cells.get("guess"))
    return Problem(
        problem=_name(path, row, cells, chosen, place, benchmark),
        question=made.question,
        gold=made.gold,
        benchmark=benchmark.name if benchmark else text_of(cells.get("benchmark"), "benchmark") or path.stem,
        guess=given if given is not None else made.guess or floor,
        verifier=verifier,
        prompt=asked(cells.get("prompt"), "prompt") or _asked(made, details, chosen, verifier, made.prompt or style),
        details=details,
        images=images_of(cells.get("images"), path.parent),
    )


def _gold(cells: Cells, row: NumberedRow, chosen: Columns, *, joined: bool) -> tuple[str | None, dict[str, object]]:
    """The gold answer; a fraction keeps the digits of the file, and a written solution gives what it boxes.

    Several answers of a benchmark (OlympiadBench) are all asked for; in a user's file they may be alternatives.
    """
    value, column = cells.get("gold"), chosen.get("gold", "")
    if joined and isinstance(value, list) and len(value) > 1:
        value = ", ".join((text_of(one, "answer") or "").strip().strip("$") for one in value)
    if isinstance(value, float):
        value = value_at(row.exact(), column) if value == value else None
    gold, extra = gold_of(value)
    if gold is None or column in ("gold", "canonical_solution"):
        return gold, extra
    hashed = after_hashes(gold)
    if hashed is not None:
        return without_thousands(hashed), extra
    if column.rpartition(".")[2] != "solution":
        return gold, extra
    boxed = last_boxed(gold)
    if boxed is None and "\n" in gold.strip():
        raise OffleashError("the solution has no \\boxed{} answer. Name a column of answers with --map gold=COLUMN.")
    return boxed or gold, extra


def _derived(fields: Fields, cells: Cells, extra: dict[str, object]) -> Derived:
    """What a user's own columns say of a problem."""
    if extra:
        return Derived(fields.question, fields.gold, extra, "countdown")
    choices = choices_of(cells.get("choices"))
    if not choices:
        return Derived(fields.question, fields.gold)
    right = letter(fields.gold, cells.get("gold"), choices)
    return Derived(fields.question, right, {"choices": list(choices)}, "choice", 1 / len(choices))


def _asked(made: Derived, details: Cells, chosen: Columns, verifier: str | None, style: str | None) -> str:
    """The message: by the benchmark's prompt, or for a user's file by its verifier, unless the question says how."""
    if style is None:
        ready = chosen["question"] == "prompt" or any(mark in made.question for mark in ASKED_ALREADY)
        style = "plain" if ready else STYLES.get(verifier or "", "boxed")
    return prompt(style, made.question, details)


def _name(path: Path, row: NumberedRow, cells: Cells, chosen: Columns, place: int, benchmark: Benchmark | None) -> str:
    """The problem's id: its own, that of a verl data set, or its place in the file."""
    own = text_of(cells.get("problem"), "id")
    if own is not None:
        return own
    index = value_at(row.values, "extra_info.index")
    if index is not None and "problem" not in chosen:
        parts = (value_at(row.values, "data_source"), value_at(row.values, "extra_info.split"), index)
        return "/".join(str(part) for part in parts if part is not None)
    return f"{benchmark.name if benchmark else path.stem}-{place}"


def _chance(value: object) -> float | None:
    chance = number_of(value, "guess floor")
    if chance is not None and not 0 <= chance < 1:
        raise OffleashError(f"the guess floor is {chance:g}; it is a chance, at least 0 and below 1.")
    return chance


def _storable(details: dict[str, object]) -> dict[str, object]:
    """Details that can be stored as JSON text."""
    try:
        json.dumps(details, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise OffleashError(f"the details cannot be written as JSON ({error}).") from None
    return details
