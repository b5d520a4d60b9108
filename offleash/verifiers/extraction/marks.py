"""Answers in explicit marks: <answer> tags, LaTeX boxes, #### lines, code fences. Linear in the text."""

import re

BOXES = ("\\boxed", "\\fbox")
MAX_BOX_CHARACTERS = 20_000  # characters a box may span; a longer one is not read
JOINED_BOX_DISTANCE = 2_000  # characters before a box in which another one belonging to it starts
MAX_BOXES_TRIED = 16  # unbalanced boxes looked at from the end before giving up: bounds the work on hostile text
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX_SEPARATOR = re.compile(  # what may stand between boxes that give one answer together
    r"(?:[\s,;.$&]|\\[,;!: ]|\\(?:quad|qquad|text|mathrm|textbf)\b|\\[()\[\]]|[{}]|\band\b|\bor\b)*", re.IGNORECASE
)
_SHORT_BOX = re.compile(r"\\(?:boxed|fbox)\s+([^\s$\\{}]+)")
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*$", re.MULTILINE)


def tagged(text: str, truncated: bool) -> str | None:
    """What stands in the last <answer>...</answer>; one left open at the end counts: its end may be a stop."""
    if "<answer>" not in text:  # far faster than looking from the end
        return None
    close = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, close) if close >= 0 else -1
    last_tag = text.rfind("<answer>")
    if last_tag > close and not truncated:
        return text[last_tag + 8 :]
    return text[start + 8 : close] if start >= 0 else None


def has_box(text: str) -> bool:
    """Whether a text names a box, balanced or not."""
    return any(box in text for box in BOXES)


def without_boxes(text: str) -> str:
    """The content of the last box, or the text itself."""
    return boxed(text) or text


def boxed(text: str) -> str | None:
    """What stands in the last balanced box; boxes joined by nothing but commas and 'and' give one answer together."""
    end = len(text)
    for _ in range(MAX_BOXES_TRIED):
        start = last_box(text, end)
        if start < 0:
            return None
        content = _content(text, start)
        if content is not None:
            return _joined_boxes(text, start, content[0])
        end = start
    return None


def last_box(text: str, end: int | None = None) -> int:
    """Where the last box before `end` starts; -1 without one."""
    start = text.rfind("\\boxed", 0, end)
    return max(start, text.rfind("\\fbox", 0, end)) if "\\fbox" in text else start


def _content(text: str, start: int) -> tuple[str, int] | None:
    """The content of the box that starts here, and where it ends."""
    opening = text.find("{", start, start + 16)
    name_end = start + (6 if text.startswith("\\boxed", start) else 5)
    if opening < 0 or text[name_end:opening].strip():
        short_box = _SHORT_BOX.match(text, start, start + 80)
        return (short_box[1], short_box.end()) if short_box else None
    depth = 0  # _BRACE also matches escapes, so that \{ and \} do not count
    for brace in _BRACE.finditer(text, opening, min(len(text), opening + MAX_BOX_CHARACTERS)):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if depth == 0:
                return text[opening + 1 : brace.start()], brace.end()
    return None


def _joined_boxes(text: str, start: int, last: str) -> str:
    """The last box with the boxes right before it: `\\boxed{-2} and \\boxed{1}` is one answer of two values."""
    parts = [last]
    for _ in range(MAX_BOXES_TRIED):
        if (
            "\\boxed" not in text[max(0, start - JOINED_BOX_DISTANCE) : start]
            and "\\fbox" not in text[max(0, start - JOINED_BOX_DISTANCE) : start]
        ):
            break
        before = last_box(text, start)
        content = _content(text, before) if before >= 0 else None
        if content is None or content[1] > start or start - content[1] > 60:
            break
        if not _BOX_SEPARATOR.fullmatch(text, content[1], start):
            break
        parts.append(content[0])
        start = before
    return ", ".join(reversed(parts))


def after_hashes(text: str) -> str | None:
    """What follows the last `####` on its line; a Markdown heading of the fourth level is no answer."""
    end = len(text)
    for _ in range(MAX_BOXES_TRIED):
        start = text.rfind("####", 0, end)
        if start < 0:
            return None
        line = text[start + 4 : start + 4 + 400].split("\n", 1)[0].lstrip("#").lstrip(" :\t").strip()
        if line and (line[0] in "-+−$€£.(\\[{" or line[0].isdigit() or _is_last(text, start)) and not _heading(line):
            return line
        end = start
    return None


def _is_last(text: str, start: int) -> bool:
    """Whether nothing but this line follows: GSM8K's solutions end so, and a heading has a text below it."""
    return not text[start:].strip().count("\n")


def _heading(line: str) -> bool:
    return line.endswith(":") or bool(re.match(r"(?:\d+[.)]\s|step\b|final answer\b|answer\b)", line, re.IGNORECASE))


def code(text: str, truncated: bool) -> str | None:
    """The last fenced block of code; one left open at the end counts unless the sample was cut off."""
    opening: tuple[str, int] | None = None
    block: str | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = (fence[1], fence.end() + 1)
        elif fence[1].startswith(opening[0]) and not fence[2]:
            block = text[opening[1] : fence.start()]
            opening = None
    if opening is not None and not truncated and text[opening[1] :].strip():
        return text[opening[1] :]
    return block
