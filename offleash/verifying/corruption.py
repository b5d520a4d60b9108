"""Answers that must be rejected: the gold answer of a problem, changed so that it is truly another one."""

import re
from collections.abc import Callable, Mapping
from string import ascii_uppercase

GARBAGE = "no such answer"
NO_FORMULA = r"\text{no such answer}"  # bare words would be read as a product of letters
NUMBER = re.compile(r"[+-]?(\d+(,\d{3})*(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# A digit of a value: not of an index such as x_1 or \log_{10}, not behind another digit or a point.
DIGIT = re.compile(r"(?<![\d._])(?<!_\{)[0.]*[1-9]")

Details = Mapping[str, object]


def corruptions(verifier: str, gold: str | None, details: Details) -> list[str]:
    """Wrong answers to a problem, in the form in which its verifier gets answers."""
    made = MAKERS.get(verifier, _words)(gold or "", details)
    return [text for text in dict.fromkeys(made) if text.strip() and text.strip() != (gold or "").strip()]


def _number(gold: str, details: Details) -> list[str]:
    """Another leading digit and the other sign: far outside any tolerance."""
    text = gold.strip()
    return [changed(text), *([negated(text)] if _nonzero(text) else []), GARBAGE]


def _math(gold: str, details: Details) -> list[str]:
    text = gold.strip()
    if NUMBER.fullmatch(text):
        return [changed(text), *([negated(text)] if _nonzero(text) else []), NO_FORMULA]
    return [changed(text), NO_FORMULA]


def _choice(gold: str, details: Details) -> list[str]:
    """Every other letter."""
    choices = details.get("choices")
    count = len(choices) if isinstance(choices, list) else 4
    return [letter for letter in ascii_uppercase[:count] if letter != gold.strip().upper()]


def _words(gold: str, details: Details) -> list[str]:
    return [f"not {gold}", changed(gold), GARBAGE] if gold.strip() else [GARBAGE]


def _garbage(gold: str, details: Details) -> list[str]:
    """Where many answers are right, a changed one may be right as well: only nonsense is surely wrong."""
    return [GARBAGE]


def _program(gold: str, details: Details) -> list[str]:
    """A program that runs and gives something no test expects."""
    entry = details.get("entry_point")
    name = entry if isinstance(entry, str) and entry.isidentifier() else None
    if details.get("kind") == "call" and name:
        return [f"class Solution:\n    def {name}(self, *given, **named):\n        return object()\n"]
    if details.get("kind") == "check" and name:
        return [f"def {name}(*given, **named):\n    return object()\n"]
    return [f"print({GARBAGE!r})\n"]


def changed(text: str) -> str:
    """The text with the leading digit of its last value changed; one added where it has no digit."""
    start = text.rfind("=") + 1
    found = DIGIT.search(text, start)
    if found:
        digit = found.end() - 1
        return f"{text[:digit]}{int(text[digit]) % 9 + 1}{text[digit + 1 :]}"
    zero = re.search(r"(?<![\d._])0", text[start:])
    if zero:
        return f"{text[: start + zero.start()]}7{text[start + zero.end() :]}"
    body = text.rstrip("$").rstrip()  # inside the dollars, where it has some
    return f"{body} + 1{text[len(body) :].strip()}"


def negated(text: str) -> str:
    """A number with the other sign."""
    return text[1:] if text.startswith("-") else f"-{text.removeprefix('+')}"


def _nonzero(text: str) -> bool:
    return bool(NUMBER.fullmatch(text)) and any(digit in text for digit in "123456789")


MAKERS: dict[str, Callable[[str, Details], list[str]]] = {
    "string": _words,
    "choice": _choice,
    "number": _number,
    "math": _math,
    "reasoning_gym": _garbage,
    "countdown": _garbage,
    "program": _program,
}
