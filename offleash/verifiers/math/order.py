"""Order and repeats: lists, assignments and names of points, which the parser turns into sets and products."""

import re
from collections import Counter

_ENTRY = re.compile(r"\s*(?:([A-Za-z](?:_\{?\w+\}?)?)\s*=\s*)?(-?(?:\\[dt]?frac\{\d+\}\{\d+\}|[\d./]+))\s*")
_POINTS = re.compile(r"\s*(?:\\(angle|overline|triangle|widehat|measuredangle)\s*)?\{?\s*([A-Z]{2,})\s*\}?\s*")
_SUM = re.compile(r"[^=<>]*[A-Za-z)}]\s*[-+*/]\s*[A-Za-z\d(\\][^=<>]*=[^=]*")


def misplaced(gold: str, answer: str) -> str:
    """Why two texts of equal entries are not the same answer; empty where nothing speaks against it."""
    expected, found = _entries(gold), _entries(answer)
    if expected and found and len(expected) == len(found):
        values, others = [value for _, value in expected], [value for _, value in found]
        if Counter(values) != Counter(others) and set(values) == set(others):
            return "other entries are repeated"
        named = all(name for name, _ in expected) and len({name for name, _ in expected}) == len(expected)
        if named and not any(name for name, _ in found) and answer.lstrip().startswith("(") and values != others:
            return "the entries stand in another order"
    points, others_points = _POINTS.fullmatch(gold), _POINTS.fullmatch(answer)
    if points and others_points and len(points[2]) > 2 and not _same_points(points, others_points):
        return "the points are named in another order"
    if _SUM.fullmatch(gold) and "=" not in answer and not re.search(r"\\(?:in|approx)(?![A-Za-z])|[<>]", answer):
        return "the gold answer is an equation, the answer only one side of it"
    return ""


def _entries(text: str) -> list[tuple[str | None, str]]:
    """The plain entries of a list, with the names they are given; empty where something else is among them."""
    inner = text.strip().removeprefix("\\left").removesuffix("\\right)").strip()
    inner = inner.strip("()") if inner.startswith("(") else inner.replace("\\{", "").replace("\\}", "")
    parts = [_ENTRY.fullmatch(part) for part in re.split(r"[,;]", inner)]
    return [(part[1], part[2]) for part in parts if part] if len(parts) > 1 and all(parts) else []


def _same_points(one: re.Match[str], other: re.Match[str]) -> bool:
    """Angles and segments may be read from either end; a triangle is its corners in any order."""
    if "triangle" in (one[1], other[1]):
        return sorted(one[2]) == sorted(other[2])
    ends = one[1] or other[1]
    return one[2] == other[2] or (bool(ends) and one[2] == other[2][::-1])
