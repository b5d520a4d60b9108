"""Prompts by the user's own template: a text file with `{question}` in it, instead of each problem's own prompt.

`{question}`, or `{{ question }}`, is replaced, and so are the problem's own prompt, its id, benchmark, choices, tests,
starter code and whatever other columns its file has. All other braces are text: `\\boxed{}` and `\\frac{a}{b}` stay as
they are. The gold answer has no place.
"""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import polars as pl

from offleash.errors import OffleashError
from offleash.problems.prompts import detail_parts, fill_template

QUESTION, OWN_PROMPT = "question", "prompt"
COLUMNS = {"id": "problem", "benchmark": "benchmark"}  # places that are columns of the table of problems
DETAILS = ("choices", "unit", "tests", "starter")
REQUIRED_PARTS = {"choices": "answer choices", "starter": "starter code"}  # a question cannot be answered without them
MAX_BYTES = 1 << 20  # of a template: more is another file by mistake
PLACEHOLDER = re.compile(r"\{\{? *([A-Za-z_][A-Za-z0-9_]*) *\}?\}")
SIMILARITY_THRESHOLD = 0.8  # of names: above, a place that does not exist is a typing error


def read_template(path: Path) -> str:
    """The template in a file, without the line break at its end; one without the question is refused."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8").removesuffix("\n")
    except FileNotFoundError:
        raise OffleashError(
            f"There is no prompt template {path}. Write a text file with {{question}} where the question goes."
        ) from None
    except OSError as error:
        raise OffleashError(f"{path} cannot be read ({error.strerror}). Give a text file with --prompt.") from None
    except UnicodeDecodeError:
        raise OffleashError(f"{path} is not text in UTF-8. Give a text file with {{question}} in it.") from None
    if len(content) > MAX_BYTES:
        raise OffleashError(f"{path} has {len(content):,} bytes, too many for a prompt template. Is it the right file?")
    check_template(text, str(path))
    return text


def check_template(text: str, where: str) -> None:
    """Refuse a template that does not ask the question, also by a misspelt place."""
    placeholders = placeholders_in(text)
    known = (QUESTION, OWN_PROMPT, *COLUMNS, *DETAILS)
    for placeholder in placeholders:
        close_matches = get_close_matches(placeholder, known, n=1, cutoff=SIMILARITY_THRESHOLD)
        if placeholder not in known and close_matches and len(placeholder) > 3:
            raise OffleashError(f"{where} has the placeholder {{{placeholder}}}. Did you mean {{{close_matches[0]}}}?")
    if QUESTION not in placeholders and OWN_PROMPT not in placeholders:
        raise OffleashError(
            f"{where} does not contain the question: it has no {{question}}. Write {{question}} where it goes, or "
            "{prompt} for the problem's own prompt."
        )


def placeholders_in(text: str) -> list[str]:
    """The names in braces of a template, each once; of LaTeX commands too."""
    return list(dict.fromkeys(match[1] for match in PLACEHOLDER.finditer(text)))


def with_template(problems: pl.DataFrame, template: str | None) -> pl.DataFrame:
    """The problems with prompts by a template; unchanged without one.

    >>> frame = pl.DataFrame({"problem": ["sum"], "question": ["What is 2 + 3?"]})
    >>> with_template(frame, r"{question} Answer in \\boxed{}.")["prompt"][0]
    'What is 2 + 3? Answer in \\\\boxed{}.'
    """
    if template is None:
        return problems
    placeholders = placeholders_in(template)
    prompts = [_prompt(template, placeholders, row) for row in problems.iter_rows(named=True)]
    return problems.with_columns(pl.Series("prompt", prompts, pl.String))


def _prompt(template: str, placeholders: list[str], row: Mapping[str, object]) -> str:
    question = row.get("question")
    if not isinstance(question, str):
        raise OffleashError(f"Problem {row['problem']!r} has no question to put into the template. Leave out --prompt.")
    details = _details(row.get("details"))
    detail_texts = detail_parts(details)
    for name, description in REQUIRED_PARTS.items():
        is_included = name in placeholders or OWN_PROMPT in placeholders or _in_question(details.get(name), question)
        if detail_texts[name] and not is_included:
            raise OffleashError(
                f"Problem {row['problem']!r} has {description}, which the template leaves out. Add {{{name}}}, or use "
                "{prompt}, the problem's own prompt."
            )
    columns = {placeholder: row.get(column) for placeholder, column in COLUMNS.items()}
    parts = {
        **{name: str(value) for name, value in details.items() if isinstance(value, str | int | float)},
        **{placeholder: "" if value is None else str(value) for placeholder, value in columns.items()},
        **detail_texts,
        QUESTION: question,
        OWN_PROMPT: str(row.get("prompt") or question),
    }
    return fill_template(template, parts)


def _in_question(value: object, question: str) -> bool:
    """Whether a question shows its choices, or its starter code, by itself."""
    return all(str(text) in question for text in (value if isinstance(value, list) else [value]))


def _details(text: object) -> dict[str, object]:
    try:
        document = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
