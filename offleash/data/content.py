"""What a problem is, whatever it is called: its text, gold answer, choices, images, tests and context.

Ids in logs are of little use by themselves: two tools number the same problems differently, and one tool numbers two
benchmarks alike. Texts are not enough either: every document of a task may ask the same sentence about another story
or image. So two problems are the same where none of these fields differs. A field that one side lacks is no
difference: logs keep what their authors needed.

Long fields are compared by short hashes, which a log's reader makes with `content_hashes` and which are stored with the
problem, so that a run folder can be matched without the log it came from.
"""

import json
import re
from hashlib import blake2b

import polars as pl

# Fields whose hashes are in the column `contents`. Text and gold have columns of their own.
HASHED = ("choices", "images", "tests", "context")
CONTENT = ("hash", "gold_key", *(f"{name}_hash" for name in HASHED))  # what is compared: see `with_content`

# "#### 72" of GSM8K, \boxed{72}, $72$: one gold answer as several tools keep it.
_HASH_ANSWER = re.compile(r"####\s*(.+?)\s*\Z", re.DOTALL)
_BOXED = re.compile(r"\\boxed\s*\{(.*)\}", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?\d+(\.\d+)?")


def content_hashes(
    choices: object = None, images: object = None, tests: object = None, context: object = None
) -> str | None:
    """The hashes of what a problem holds beside its text and gold answer, as the JSON object of column `contents`.

    Args:
        choices: The options of a multiple-choice question: a list, or an object of labels and texts.
        images: Whatever the log keeps of its images: addresses, paths or data.
        tests: The tests that decide about a program.
        context: A text that the question is about and that is not part of it: a story, a passage, a table.

    Returns:
        The JSON object; None where the log has none of them.

    >>> content_hashes(choices=["Paris", "Rome"]) == content_hashes(choices={"A": "Paris", "B": "Rome"})
    True
    >>> content_hashes() is None
    True
    """
    fields = {"choices": _choice_list(choices), "images": images, "tests": tests, "context": context}
    hashes = {name: _hash(value) for name, value in fields.items() if value not in (None, "", [], {})}
    return json.dumps(hashes, sort_keys=True) if hashes else None


def _choice_list(choices: object) -> object:
    """Choices as a list of texts, also of {"label": [...], "text": [...]} and {"A": ..., "B": ...}."""
    if isinstance(choices, dict):
        texts = choices.get("text", choices.get("choices"))
        choices = texts if isinstance(texts, list) else [choices[label] for label in sorted(choices)]
    if isinstance(choices, list | tuple):
        return [choice.strip() if isinstance(choice, str) else choice for choice in choices]
    return choices


def _hash(value: object) -> str:
    text = value.strip() if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def gold_key(gold: str | None) -> str | None:
    """A gold answer in the form in which two logs are compared: without the marks that tools put around it.

    >>> gold_key("6 * 12 = 72\\n#### 72"), gold_key("$\\\\boxed{72}$"), gold_key("1,072.50"), gold_key(" (B) ")
    ('72', '72', '1072.5', '(B)')
    """
    if gold is None:
        return None
    text = gold.strip()
    if hash_answer := _HASH_ANSWER.search(text):
        text = hash_answer[1]
    text = text.strip("$ \n\t")
    if boxed := _BOXED.fullmatch(text):
        text = boxed[1].strip()
    if not _NUMBER.fullmatch(text):
        return text
    integer_part, _, fraction = text.replace(",", "").lstrip("+").partition(".")
    sign, digits = ("-", integer_part[1:]) if integer_part.startswith("-") else ("", integer_part)
    number = (digits.lstrip("0") or "0") + (f".{decimals}" if (decimals := fraction.rstrip("0")) else "")
    return number if number == "0" else sign + number


def with_content(problems: pl.DataFrame) -> pl.DataFrame:
    """A table of problems with the columns of CONTENT, null where a problem lacks the field."""
    golds = problems["gold"].unique()
    keys = pl.Series([gold_key(gold) for gold in golds], dtype=pl.String)
    return problems.with_columns(
        pl.col("gold").replace_strict(golds, keys, default=None, return_dtype=pl.String).alias("gold_key"),
        *(pl.col("contents").str.json_path_match(f"$.{name}").alias(f"{name}_hash") for name in HASHED),
    )


def fields_differ(field: str, suffix: str = "_other") -> pl.Expr:
    """Whether both sides of a join have this field, with different values."""
    return (pl.col(field) != pl.col(f"{field}{suffix}")).fill_null(False)


def contents_agree(suffix: str = "_other", ignored: tuple[str, ...] = ()) -> pl.Expr:
    """Whether no field of the content differs between the two sides of a join."""
    return ~pl.any_horizontal([fields_differ(field, suffix) for field in CONTENT if field not in ignored])
