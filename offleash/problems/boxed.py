"""The gold answer inside a written solution: after `####`, or in the last box."""

import re

BOX = re.compile(r"\\f?boxed\s*\{|\\fbox\s*\{")


def last_boxed(text: str) -> str | None:
    """What the last balanced `\\boxed{}` or `\\fbox{}` holds; None when there is none."""
    for start in reversed([found.end() for found in BOX.finditer(text)]):
        depth = 1
        for place in range(start, len(text)):
            escaped = text[place - 1] == "\\"
            depth += 0 if escaped else {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                return text[start:place].strip() or None
    return None


def after_hashes(text: str) -> str | None:
    """What follows the last `####`, to the end of its line, as GSM8K marks its answers."""
    if "####" not in text:
        return None
    return text.rpartition("####")[2].strip().partition("\n")[0].strip() or None


def without_thousands(text: str) -> str:
    """A number without the commas between its thousands; anything else unchanged."""
    return text.replace(",", "") if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", text) else text
