"""Problem files: any table with questions and answers, verl and TRL data sets, copies of benchmarks.

In order: the gold answer inside a written solution (after `####`, or in the last box), images, rows to problems, and
values of columns. Nothing is repaired or guessed silently: a wrong gold answer makes every model look worse. Rows come
from files/detect.py, the choice of columns from files/columns.py.
"""

import contextlib
import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

from offleash.data.tables import Note
from offleash.errors import OffleashError, unknown
from offleash.files.columns import PROBLEM_COLUMNS, all_columns, columns_note, guess_columns, require_column, value_at
from offleash.files.detect import read_rows
from offleash.files.lines import FileKind
from offleash.files.rows import Row, WrittenFloat, shown
from offleash.problems.problem import NO_GOLD_NEEDED, OWN_NAMES, Benchmark, Derived, Fields, Problem, ProblemSet, table
from offleash.problems.prompts import prompt

# \fbox is what some solutions of MATH use instead.
BOX_PATTERN = re.compile(r"\\f?boxed\s*\{|\\fbox\s*\{")


def last_boxed(text: str) -> str | None:
    """What the last balanced `\\boxed{}` or `\\fbox{}` holds; None when there is none."""
    for start in reversed([match.end() for match in BOX_PATTERN.finditer(text)]):
        depth = 1
        for position in range(start, len(text)):
            is_escaped = text[position - 1] == "\\"  # \{ and \} are characters of a set, not braces of the box
            depth += 0 if is_escaped else {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[start:position].strip() or None
    return None


def after_hashes(text: str) -> str | None:
    """What follows the last `####`, to the end of its line, as GSM8K marks its answers."""
    if "####" not in text:
        return None
    return text.rpartition("####")[2].strip().partition("\n")[0].strip() or None


def without_thousands(text: str) -> str:
    """A number without the commas between its thousands; anything else unchanged."""
    return text.replace(",", "") if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text) else text


# Images as data: URLs, so that a problem is complete in one row.


KINDS = {  # first bytes -> media type
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
}


def images_of(value: object, folder: Path) -> tuple[str, ...]:
    """The images of a problem as data: URLs.

    Args:
        value: One or a list of: bytes, {bytes, path} as the hub stores them, a path, a data: URL.
        folder: Where relative paths start: the folder of the problem file.
    """
    value = parse_json_text(value)
    if value is None or value in ("", []):
        return ()
    images = value if isinstance(value, list) else [value]
    return tuple(_address(image, folder) for image in images if image is not None)


def address(data: bytes) -> str:
    """An image as a data: URL, with its media type from its first bytes."""
    kind = next((kind for start, kind in KINDS.items() if data.startswith(start)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise OffleashError(f"an image begins with {shown(data[:8])}, which is not PNG, JPEG, GIF, WebP, BMP or TIFF.")
    return f"data:{kind};base64,{b64encode(data).decode()}"


def _address(value: object, folder: Path) -> str:
    """One image as a data: URL. Addresses on the network are refused: what they show may change."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path") or value.get("url")
    if isinstance(value, bytes):
        return address(value)
    if not isinstance(value, str):
        raise OffleashError(f"an image is {shown(value)}; give its bytes, its path or a data: URL.")
    if value.startswith("data:"):
        return value
    if "://" in value:
        raise OffleashError(
            f"the image {shown(value)} is a URL, whose content may change. Download it and give its path."
        )
    try:
        return address((folder / value).read_bytes())
    except (OSError, ValueError) as error:
        raise OffleashError(
            f"the image {shown(value)} cannot be read ({error}). Paths of images are relative to the file."
        ) from None


# Rows to problems, by a file's own columns or by the derivation of its benchmark.


Columns = Mapping[str, str]
Cells = Mapping[str, object]
# A question with one of these already says how to answer: no instruction is added to it.
FORMAT_MARKERS = ("\\boxed", "<answer>", "####")
# Prompt by verifier, for users' files; math and the rest get "boxed".
PROMPT_BY_VERIFIER = {
    "choice": "choice",
    "number": "number",
    "string": "tagged",
    "countdown": "tagged",
    "program": "plain",
}


# Strict: a problem that went missing, or an answer with other digits, would change every result.
PROBLEM_FILE = FileKind(
    description="a file of problems",
    example='{"question": ..., "answer": ...}',
    empty="Was writing it interrupted?",
    written_floats=True,
    drop_nulls=True,
)


def problem_of(path: Path, row: Row, number: int, chosen: Columns, benchmark: Benchmark | None) -> Problem:
    """The problem of a row.

    Args:
        path: The file: relative image paths start beside it, and problems without an id are called after it.
        row: The row.
        number: of the row among those kept, from 0, for problems without an id.
        chosen: Role -> column.
        benchmark: Whose verifier, prompt, guess floor and derivation apply; None for a user's own file.

    Errors say what is wrong with the row; the caller adds which row it is.
    """
    cells = {role: value_at(row.values, column) for role, column in chosen.items()}
    question = question_text(cells["question"], "question")
    if question is None:
        raise OffleashError(f"the question ({chosen['question']}) is empty. Fill it in, or delete the row.")
    gold, gold_details = _gold(cells, row, chosen, from_benchmark=benchmark is not None)
    fields, verifier_name = Fields(question, gold), text_of(cells.get("verifier"), "verifier")
    if benchmark is None or verifier_name is not None:  # a row that names its verifier has nothing left to derive
        derived, style, guess_floor = _derive_problem(fields, cells, gold_details), None, None
        verifier = verifier_name or derived.verifier
    else:
        derived, style, guess_floor = benchmark.derive(fields, row.values), benchmark.prompt, benchmark.guess
        verifier = derived.verifier or benchmark.verifier
    if derived.gold is None and verifier not in NO_GOLD_NEEDED:
        gold_column = chosen.get("gold", "gold, answer, solution, ...")
        # Refused now, not as "wrong" after thousands of samples.
        raise OffleashError(
            f"there is no answer ({gold_column}). Fill it in, or name its column with --map gold=COLUMN."
        )
    details = _check_storable({**derived.details, **object_of(cells.get("details"), "details")})
    stated_chance = _chance(cells.get("guess"))
    return Problem(
        problem=_name(path, row, cells, chosen, number, benchmark),
        question=derived.question,
        gold=derived.gold,
        benchmark=benchmark.name if benchmark else text_of(cells.get("benchmark"), "benchmark") or path.stem,
        guess=stated_chance if stated_chance is not None else derived.guess or guess_floor,
        verifier=verifier,
        prompt=question_text(cells.get("prompt"), "prompt")
        or _prompt_text(derived, details, chosen, verifier, derived.prompt or style),
        details=details,
        images=images_of(cells.get("images"), path.parent),
        columns=_other_columns(row, chosen) if benchmark is None else {},
    )


def _other_columns(row: Row, chosen: Columns) -> dict[str, object]:
    """The rest of a row, which a verifier of the user's own may take by name; what JSON cannot hold is left out."""
    left_out = OWN_NAMES | {chosen.get("images", "").partition(".")[0]}
    other_columns: dict[str, object] = {}
    for name, value in row.values.items():
        if name in left_out:
            continue
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            other_columns[name] = json.loads(json.dumps(value, allow_nan=False))
    return other_columns


def _gold(cells: Cells, row: Row, chosen: Columns, *, from_benchmark: bool) -> tuple[str | None, dict[str, object]]:
    """The gold answer; a fraction keeps the digits of the file, and a written solution gives what it boxes.

    Several answers of a benchmark (OlympiadBench) are all required; in a user's file they may be alternatives.
    """
    value, column = cells.get("gold"), chosen.get("gold", "")
    if from_benchmark and isinstance(value, list) and len(value) > 1:
        value = ", ".join((text_of(answer, "answer") or "").strip().strip("$") for answer in value)
    if isinstance(value, float):
        value = None if math.isnan(value) else value.written if isinstance(value, WrittenFloat) else value
    gold, gold_details = gold_of(value)
    if gold is None or column in ("gold", "canonical_solution"):
        return gold, gold_details
    # GSM8K and data sets made like it. In a column called gold it would be part of the answer.
    marked_answer = after_hashes(gold)
    if marked_answer is not None:
        return without_thousands(marked_answer), gold_details
    if column.rpartition(".")[2] != "solution":
        return gold, gold_details
    boxed = last_boxed(gold)
    if boxed is None and "\n" in gold.strip():
        raise OffleashError("the solution has no \\boxed{} answer. Name a column of answers with --map gold=COLUMN.")
    return boxed or gold, gold_details


def _derive_problem(fields: Fields, cells: Cells, gold_details: dict[str, object]) -> Derived:
    """What a user's own columns say about a problem: a countdown target, choices, or nothing more."""
    if gold_details:
        return Derived(fields.question, fields.gold, gold_details, "countdown")
    choices = choices_of(cells.get("choices"))
    if not choices:
        return Derived(fields.question, fields.gold)
    correct_letter = letter(fields.gold, cells.get("gold"), choices)
    return Derived(fields.question, correct_letter, {"choices": list(choices)}, "choice", 1 / len(choices))


def _prompt_text(derived: Derived, details: Cells, chosen: Columns, verifier: str | None, style: str | None) -> str:
    """The prompt: by the benchmark's style, or in a user's file by the verifier, unless the question says how."""
    if style is None and chosen["question"] == "prompt":
        style = "plain"
    if style is None:
        return default_prompt(derived.question, details, verifier)
    return prompt(style, derived.question, details)


def default_prompt(question: str, details: Cells, verifier: str | None) -> str:
    """The prompt of a problem that has none of its own: as its verifier wants, unless the question says how."""
    states_format = any(marker in question for marker in FORMAT_MARKERS)
    return prompt("plain" if states_format else PROMPT_BY_VERIFIER.get(verifier or "", "boxed"), question, details)


def _name(path: Path, row: Row, cells: Cells, chosen: Columns, number: int, benchmark: Benchmark | None) -> str:
    """The problem's id: its own, that of a verl data set, or its row number."""
    id_column = text_of(cells.get("problem"), "id")
    if id_column is not None:
        return id_column
    index = value_at(row.values, "extra_info.index")
    if index is not None and "problem" not in chosen:
        parts = (value_at(row.values, "data_source"), value_at(row.values, "extra_info.split"), index)
        return "/".join(str(part) for part in parts if part is not None)
    return f"{benchmark.name if benchmark else path.stem}-{number}"


def _chance(value: object) -> float | None:
    """A guess floor: at 1 every answer would be right, and nothing could be learned from the problem."""
    chance = number_of(value, "guess floor")
    if chance is not None and not 0 <= chance < 1:
        raise OffleashError(f"the guess floor is {chance:g}; it must be a probability, at least 0 and below 1.")
    return chance


def _check_storable(details: dict[str, object]) -> dict[str, object]:
    """Details that can be stored as JSON text."""
    try:
        json.dumps(details, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise OffleashError(f"the details cannot be written as JSON ({error}).") from None
    return details


def read_problems(path: Path, *, columns: Columns | None = None, benchmark: Benchmark | None = None) -> ProblemSet:
    """Every problem of a file, each once, in the order of the file.

    Args:
        path: JSONL, a JSON array, CSV or Parquet; gzip too.
        columns: --map: role -> column.
        benchmark: Whose verifier, guess floor, prompt and derivation apply, where the file is a copy of it.

    Returns:
        The problems, notes on what was read from where and left out, and the row of each problem.
    """
    rows = list(read_rows(path, PROBLEM_FILE))
    # Columns of all rows: in JSON the first one need not have them all.
    known = all_columns(row.values for row in rows)
    chosen = _columns(path, known, columns or {}, benchmark.columns if benchmark else {})
    if "question" not in chosen:
        raise OffleashError(
            f"{path} has the columns {', '.join(known[:20])}; none of them is recognized as the question. "
            "Name it with --map question=COLUMN."
        )
    kept = [row for row in rows if benchmark is None or benchmark.keep is None or benchmark.keep(row.values)]
    if not kept and benchmark is not None:
        raise OffleashError(
            f"{path}: none of its {len(rows)} rows belongs to {benchmark.name} ({benchmark.about}). "
            "Is it the right file?"
        )
    problems = _distinct_problems(path, kept, chosen, benchmark)
    filtered_out, repeated = len(rows) - len(kept), len(kept) - len(problems)
    rows_of = {problem.problem: number for number, problem in problems}
    notes = _notes(path, () if benchmark else known, chosen, filtered_out, repeated)
    return ProblemSet(table(problem for _, problem in problems), notes, rows_of)


def _columns(path: Path, known: Sequence[str], mapped: Columns, hub_columns: Columns) -> Columns:
    """Role -> column: as --map says, else the hub's own names where the file has them, else the usual ones."""
    for role, column in mapped.items():
        if role not in PROBLEM_COLUMNS:
            raise unknown("--map name", role, PROBLEM_COLUMNS)
        if column:
            require_column(column, known, path, f"--map {role}={column}")
    if {"question", "problem"} <= {name.strip().lower() for name in known}:
        hub_columns = {}  # a file that `offleash problems` wrote: its columns have our names
    names = {
        role: (hub_columns[role], *usual) if role in hub_columns else usual for role, usual in PROBLEM_COLUMNS.items()
    }
    return guess_columns(names, known, mapped)


def _distinct_problems(
    path: Path, rows: list[Row], chosen: Columns, benchmark: Benchmark | None
) -> list[tuple[int, Problem]]:
    """The problems with their rows, each once. Two that share an id and differ are refused: verdicts go by id."""
    problems: dict[str, tuple[int, Problem]] = {}
    for position, row in enumerate(rows):
        try:
            problem = problem_of(path, row, position, chosen, benchmark)
        except OffleashError as error:
            raise OffleashError(f"{path}: row {row.number}: {error}") from None
        number, earlier_problem = problems.setdefault(problem.problem, (row.number, problem))
        if earlier_problem != problem:
            raise OffleashError(
                f"{path}: rows {number} and {row.number} have the same id {shown(problem.problem)} but differ. "
                "Give each problem its own id, or use --map problem= (nothing after the =) to number them."
            )
    return list(problems.values())


def _notes(path: Path, known: tuple[str, ...], chosen: Columns, filtered_out: int, duplicates: int) -> tuple[Note, ...]:
    used = {name_part for column in chosen.values() for name_part in (column, column.partition(".")[0])}
    unused = [name for name in known if name not in used and "." not in name]
    notes = [columns_note(path, chosen, unused)]
    if filtered_out:
        notes.append(
            Note(f"{path.name}: rows that do not belong to the benchmark were left out.", filtered_out, left_out=True)
        )
    if duplicates:
        notes.append(
            Note(f"{path.name}: rows that repeat an earlier problem word for word were left out.", duplicates, True)
        )
    return tuple(notes)


# Values of columns as the texts a problem needs: questions, gold answers, choices, numbers.


LETTER = re.compile(r"\(?([A-Za-z])[.):]?")


def text_of(value: object, field_name: str) -> str | None:
    """A text, a number, or a list with one of these, as text; None if there is none. Errors name `field_name`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return _well_formed(value, field_name) if value.strip() else None
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        return text_of(value[0], field_name)
    if isinstance(value, list) and not value:
        return None
    raise OffleashError(f"the {field_name} is {shown(value)}, not a string or a number. Write it as one string.")


def question_text(value: object, field_name: str) -> str | None:
    """A question or a prompt, from a text or from a conversation with one message of the user."""
    if not (isinstance(value, list) and value and all(isinstance(turn, dict) for turn in value)):
        return text_of(value, field_name)
    turns = [(str(turn.get("role", "user")), turn.get("content")) for turn in value]
    roles = [role for role, _ in turns]
    if roles not in (["user"], ["system", "user"]):
        raise OffleashError(
            f"the {field_name} is a conversation with the turns {', '.join(roles)}; only one user message, with or "
            "without a system message, is supported. Write it as one string."
        )
    parts = [_content(content, field_name) for _, content in turns]
    return "\n\n".join(part for part in parts if part) or None


def gold_of(value: object) -> tuple[str | None, dict[str, object]]:
    """The gold answer as text, and the details that verl's countdown keeps in its place: target and numbers."""
    if not isinstance(value, dict):
        return text_of(value, "answer"), {}
    known = {key: field for key, field in value.items() if field is not None}
    if {"target", "numbers"} <= known.keys():
        return None, {"target": known["target"], "numbers": known["numbers"]}
    inner = [name for name in ("ground_truth", "target", "answer", "value") if name in known]
    if not inner:
        raise OffleashError(
            f"the answer is {shown(value)}, not a string or a number. Name another column with --map gold=COLUMN."
        )
    return text_of(known[inner[0]], "answer"), {}


def choices_of(value: object) -> tuple[str, ...]:
    """The options of a question: a list of texts, or an object of labels and texts."""
    value = parse_json_text(value)
    if value is None or value == [] or value == {}:
        return ()
    if isinstance(value, dict):
        value = value["text"] if isinstance(value.get("text"), list) else list(value.values())
    if not isinstance(value, list):
        raise OffleashError(f"the choices are {shown(value)}, not a list of strings. Write them as a JSON list.")
    texts = tuple(text_of(choice, "choice") or "" for choice in value)
    if not 2 <= len(texts) <= len(ascii_uppercase):
        raise OffleashError(f"there are {len(texts)} choices; a question has 2 to {len(ascii_uppercase)}.")
    return texts


def letter(gold: str | None, index: object, choices: tuple[str, ...]) -> str | None:
    """The letter of the right choice, given as a letter, as its text, or as its index, counted from 0."""
    if gold is None:
        return None
    letters = ascii_uppercase[: len(choices)]
    match = LETTER.fullmatch(gold.strip())
    if match and match[1].upper() in letters:
        return match[1].upper()
    is_list = re.fullmatch(r"[A-Za-z](\s*,\s*[A-Za-z])+", gold.strip())
    if is_list and set(chosen := [entry.strip().upper() for entry in gold.split(",")]) <= set(letters):
        return ",".join(chosen)  # a question with several right choices, all of which are needed
    texts = [choice.strip() for choice in choices]
    if texts.count(gold.strip()) == 1:
        return letters[texts.index(gold.strip())]
    # A number among the choices was matched as text above; any other is an index, counted from 0 as data sets do.
    position = index if isinstance(index, int) and not isinstance(index, bool) else None
    if position is None and re.fullmatch(r"\d{1,2}", gold.strip()):
        position = int(gold)
    if position is not None and 0 <= position < len(choices):
        return letters[position]
    raise OffleashError(
        f"the answer {shown(gold)} is not among the {len(choices)} choices: give its letter ({letters[0]} to "
        f"{letters[-1]}), its text, or its index from 0."
    )


def number_of(value: object, field_name: str) -> float | None:
    """A finite number; None when there is nothing."""
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise OffleashError(f"the {field_name} is {shown(value)}, not a number.")
    return number


def object_of(value: object, field_name: str) -> Mapping[str, object]:
    """A JSON object, given as one or as its text."""
    value = parse_json_text(value)
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise OffleashError(f"the {field_name} are {shown(value)}, not a JSON object.")
    return value


def parse_json_text(value: object) -> object:
    """A list or an object, also where a CSV field holds it as JSON text. Text that only looks like JSON stays text."""
    if not (isinstance(value, str) and value.strip()[:1] in ("[", "{")):
        return value
    try:
        parsed: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed


def _content(value: object, field_name: str) -> str | None:
    """The text of a message, given as text or as parts; the images among the parts have their own column."""
    if isinstance(value, list):
        texts = [part.get("text") for part in value if isinstance(part, dict)]
        return "\n".join(str(text) for text in texts if text) or None
    return text_of(value, field_name)


def _well_formed(text: str, field_name: str) -> str:
    """A text that can be stored as UTF-8. JSON can hold half a surrogate pair, and Parquet cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise OffleashError(
            f"the {field_name} holds half a surrogate pair: {shown(text)}. Write the whole character."
        ) from None
    return text
