"""What a program printed or returned against what was expected, by LiveCodeBench's rules (arXiv:2403.07974).

Printed: white space around the whole and around each line does not count; lines must be as many; a line agrees when it
is the same text, or when both are numbers, token by token, of exactly the same decimal values (`1.0` and `1`, not
`0.33` and `0.333`). Returned: equal as JSON, a tuple being a list; no tolerance for floats.
"""

from decimal import Decimal, InvalidOperation


def same_output(printed: str, expected: str) -> bool:
    """Whether a program printed what was expected."""
    ours, theirs = _lines(printed), _lines(expected)
    return len(ours) == len(theirs) and all(_same_line(a, b) for a, b in zip(ours, theirs, strict=True))


def same_value(returned: object, expected: object) -> bool:
    """Whether a function returned what was expected."""
    try:
        return bool(returned == expected)
    except RecursionError:
        return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    a, b = ours.split(), theirs.split()
    if len(a) != len(b):
        return False
    try:
        return [Decimal(token) for token in a] == [Decimal(token) for token in b]
    except InvalidOperation:
        return False
