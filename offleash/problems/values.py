"""Values of a user's columns as the texts a problem needs: questions, golds, choices, numbers."""

import json
import math
import re
from collections.abc import Mapping
from string import ascii_uppercase

from offleash.errors import OffleashError
from offleash.files.problems_rows import shown

LETTER = re.compile(r"\(?([A-Za-z])[.):]?")


def text_of(value: object, what: str) -> str | None:
    """A text, a number or a list of one of them as text; None when there is nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return _well_formed(value, what) if value.strip() else None
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        return text_of(value[0], what)
    if isinstance(value, list) and not value:
        return None
    raise OffleashError(f"the {what} is {shown(value)}, not a text or a number. Write it as one text.")


def asked(value: object, what: str) -> str | None:
    """A question or a prompt: a text, or a conversation that ends in one message of the user."""
    if not (isinstance(value, list) and value and all(isinstance(one, dict) for one in value)):
        return text_of(value, what)
    turns = [(str(one.get("role", "user")), one.get("content")) for one in value]
    roles = [role for role, _ in turns]
    if roles not in (["user"], ["system", "user"]):
        raise OffleashError(
            f"the {what} is a conversation with the turns {', '.join(roles)}; one message of the user, with or without "
            "a system message, can be asked. Write it as one text."
        )
    parts = [_content(content, what) for _, content in turns]
    return "\n\n".join(part for part in parts if part) or None


def gold_of(value: object) -> tuple[str | None, dict[str, object]]:
    """The gold answer as text, and what else a gold object holds: verl's countdown gives target and numbers."""
    if not isinstance(value, dict):
        return text_of(value, "answer"), {}
    known = {key: one for key, one in value.items() if one is not None}
    if {"target", "numbers"} <= known.keys():
        return None, {"target": known["target"], "numbers": known["numbers"]}
    inner = [name for name in ("ground_truth", "target", "answer", "value") if name in known]
    if not inner:
        raise OffleashError(
            f"the answer is {shown(value)}, not a text or a number. Name another with --map gold=COLUMN."
        )
    return text_of(known[inner[0]], "answer"), {}


def choices_of(value: object) -> tuple[str, ...]:
    """The options of a question: a list of texts, or an object of labels and texts."""
    value = structured(value)
    if value is None or value == [] or value == {}:
        return ()
    if isinstance(value, dict):
        value = value["text"] if isinstance(value.get("text"), list) else list(value.values())
    if not isinstance(value, list):
        raise OffleashError(f"the choices are {shown(value)}, not a list of texts. Write them as a JSON list.")
    texts = tuple(text_of(one, "choice") or "" for one in value)
    if not 2 <= len(texts) <= len(ascii_uppercase):
        raise OffleashError(f"there are {len(texts)} choices; a question has 2 to {len(ascii_uppercase)}.")
    return texts


def letter(gold: str | None, index: object, choices: tuple[str, ...]) -> str | None:
    """The letter of the right choice, given as a letter, as its text, or as its place counted from 0."""
    if gold is None:
        return None
    letters = ascii_uppercase[: len(choices)]
    found = LETTER.fullmatch(gold.strip())
    if found and found[1].upper() in letters:
        return found[1].upper()
    several = re.fullmatch(r"[A-Za-z](\s*,\s*[A-Za-z])+", gold.strip())
    if several and set(chosen := [one.strip().upper() for one in gold.split(",")]) <= set(letters):
        return ",".join(chosen)  # all of them are right together
    texts = [choice.strip() for choice in choices]
    if texts.count(gold.strip()) == 1:
        return letters[texts.index(gold.strip())]
    place = index if isinstance(index, int) and not isinstance(index, bool) else None
    if place is None and re.fullmatch(r"\d{1,2}", gold.strip()):
        place = int(gold)
    if place is not None and 0 <= place < len(choices):
        return letters[place]
    raise OffleashError(
        f"the answer {shown(gold)} is none of the {len(choices)} choices: give its letter ({letters[0]} to "
        f"{letters[-1]}), its text, or its place counted from 0."
    )


def number_of(value: object, what: str) -> float | None:
    """A finite number; None when there is nothing."""
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise OffleashError(f"the {what} is {shown(value)}, not a number.")
    return number


def object_of(value: object, what: str) -> Mapping[str, object]:
    """A JSON object, given as one or as its text."""
    value = structured(value)
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise OffleashError(f"the {what} are {shown(value)}, not a JSON object.")
    return value


def structured(value: object) -> object:
    """A list or an object, also where a CSV field holds it as JSON text."""
    if not (isinstance(value, str) and value.strip()[:1] in ("[", "{")):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found


def _content(value: object, what: str) -> str | None:
    """The text of a message, given as text or as parts of which the images stand in their own column."""
    if isinstance(value, list):
        texts = [part.get("text") for part in value if isinstance(part, dict)]
        return "\n".join(str(text) for text in texts if text) or None
    return text_of(value, what)


def _well_formed(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise OffleashError(
            f"the {what} holds half a surrogate pair: {shown(text)}. Write the character whole."
        ) from None
    return text
