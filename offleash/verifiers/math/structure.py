"""Structural limits before algebra: forms whose evaluation would take longer than anyone waits, told by their text.

Whatever gets past them is still killed on time or memory by the pool; these only save the wait.
"""

import re

LENGTH = 2_000  # characters of a formula
DEPTH = 30  # of braces and brackets
EXPONENT = 20_000  # largest exponent written out
FACTORIAL = 5_000  # largest argument of a factorial
RANGE = 100_000  # largest bound of a sum or product
MOST_DIGITS = 1_000  # of one number
_TOWER = re.compile(r"\^\s*\{?\s*\(?\s*[\w\\.]+\s*\^\s*\{?\s*\(?\s*[\w\\.]+\s*\^")
_STACK = re.compile(r"\^\s*\{?\s*\(?\s*\d+\s*\^\s*\{?\s*\(?\s*(\d+)")
_EXPONENT = re.compile(r"\^\s*\{?\s*\(?\s*-?\s*(\d+)")
_FACTORIAL = re.compile(r"(\d+)\s*\)?\s*!")
_DOUBLE = re.compile(r"[\^!*][^()]{0,60}\)\s*!|!\s*\)?\s*\}?\s*[!^]|\^\s*\{?\s*\(?\s*\d+\s*!")
_BOUND = re.compile(r"\\(?:sum|prod|int|binom|dbinom|tbinom)[^0-9]{0,40}\d*[^0-9]{0,40}?(\d{6,})")
_NUMBER = re.compile(r"\d+")


def beyond(text: str) -> str:
    """Why a formula is not handed to algebra, in words; empty where it may be."""
    if len(text) > LENGTH:
        return f"its {len(text):,} characters are more than {LENGTH:,}"
    if _depth(text) > DEPTH:
        return f"it nests deeper than {DEPTH} levels"
    if any(len(number) > MOST_DIGITS for number in _NUMBER.findall(text)):
        return f"it holds a number of more than {MOST_DIGITS:,} digits"
    if _TOWER.search(text):
        return "it holds a tower of powers"
    stacked = _STACK.search(text)
    if stacked and _large(stacked[1], 4):
        return "it holds a power of a power too large to compute"
    exponent = next((found[1] for found in _EXPONENT.finditer(text) if _large(found[1], EXPONENT)), None)
    if exponent:
        return f"it holds a power with the exponent {exponent[:12]}"
    if any(_large(found[1], FACTORIAL) for found in _FACTORIAL.finditer(text)) or _DOUBLE.search(text):
        return f"it holds a factorial beyond {FACTORIAL:,}!"
    if _BOUND.search(text):
        return f"it holds a sum, product or binomial beyond {RANGE:,}"
    return ""


def _large(digits: str, bound: int) -> bool:
    return len(digits) > 12 or int(digits) > bound


def _depth(text: str) -> int:
    depth = most = 0
    for character in text:
        if character in "{([":
            depth += 1
            most = max(most, depth)
        elif character in "})]":
            depth -= 1
    return most
