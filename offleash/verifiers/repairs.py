r"""The answer repairs of the paper (arXiv:2507.14843, appendix), applied to the answers of every model alike.

LaTeX that a task's scorer cannot read is rewritten as plain text: fractions, `\times`, degrees, scientific notation,
text wrappers, spacing, thousands, math delimiters, JSON fences, a final full stop. The text is read from left to right
with a stack for braces: time is linear in the length, whatever the nesting, and nothing recurses.
"""

import re
from dataclasses import dataclass

# A plain answer has none of these and is only stripped of white space around it.
NEEDS_REPAIR = re.compile(r"[\\$`°]|\{,\}|\.\Z|10\^")
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}°\\]|[^\\{}°]+", re.DOTALL)
OPENING_BRACE = re.compile(r"\s*\{")
DIGITS = re.compile(r"\s*(\d)\s*(\d)")  # \frac12
LETTER = re.compile(r"\s*(\w)")  # \frac{1}2
THREE_DIGITS = re.compile(r"\d{3}(?!\d)")
DEGREE_SIGN = re.compile(r"\{\s*\\circ\s*\}")
CODE_LANGUAGE = re.compile(r"[A-Za-z0-9_+-]*[ \t]*\r?\n|(?:json|python|text|txt|plaintext|latex|math)\b")
SCIENTIFIC = re.compile(
    r"(?<![\w.])([+-]?\d{1,400}(?:\.\d{1,400})?) ?[*×] ?10\^(?:\{([+-]?\d{1,9})\}|([+-]?\d{1,9}))(?![\w.^*])"
)
SIMPLE_OPERAND = re.compile(r"[\w.]*")  # an operand that needs no brackets
MAX_CHARACTERS = 200_000  # characters; no task has a longer answer, and a text of megabytes is not worth the seconds
MAX_LAYERS = 8  # readings: an unwrapped text may show one more layer, and nobody writes more layers than this

FRACTIONS = frozenset((r"\frac", r"\dfrac", r"\tfrac", r"\cfrac"))
WRAPPERS = frozenset(
    (r"\text", r"\mathrm", r"\textbf", r"\mathbf", r"\textit", r"\mathit", r"\texttt", r"\mbox", r"\operatorname")
)
COMMAND_TEXT = {
    **dict.fromkeys((r"\times", r"\cdot"), "*"),
    r"\div": "/",
    **dict.fromkeys((r"\left", r"\right", r"\!", r"\displaystyle"), ""),
    **dict.fromkeys((r"\,", r"\;", r"\:", r"\ ", r"\quad", r"\qquad"), " "),
    **{"\\" + mark: mark for mark in "$%#&_"},
}


def repair_answer(answer: str) -> str:
    """The answer in plain writing; doing it twice changes nothing more."""
    text = answer.strip()
    for _ in range(MAX_LAYERS if len(text) <= MAX_CHARACTERS else 0):
        if not NEEDS_REPAIR.search(text):
            break
        before, text = text, _plain_notation(_unwrap_delimiters(text)).strip()
        if text == before:
            break
    return text


def _unwrap_delimiters(text: str) -> str:
    """Without the fence, the math marks and the full stop around all of it."""
    if text.startswith("```") and text.endswith("```") and len(text) > 6 and text.count("```") == 2:
        language = CODE_LANGUAGE.match(text, 3)
        text = text[language.end() if language else 3 : -3].strip()
    if text.endswith(".") and not text.endswith((" .", "..")) and len(text) > 1:
        text = text[:-1].rstrip()
    dollars = text.count("$") - text.count(r"\$")
    for opening, closing in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        is_only_pair = (
            dollars == 2 * len(opening) if opening[0] == "$" else text.count(opening) == text.count(closing) == 1
        )
        if is_only_pair and text.startswith(opening) and text.endswith(closing) and len(text) >= 2 * len(opening):
            return text[len(opening) : -len(closing)].strip()
    return text


@dataclass
class _Frame:
    """An open brace: what it belongs to, and the written pieces to put back if it turns out not to close."""

    kind: str  # group, wrapper, numerator or denominator
    originals: list[tuple[int, str]]  # place among the pieces, and what stood there

    @property
    def start(self) -> int:
        return self.originals[-1][0]


class _Pieces(list[str]):
    """What has been written so far."""

    def write(self, piece: str) -> None:
        # "\foo" and a letter after it must not grow into another command
        last = self.last()
        if piece[:1].isalpha() and last.startswith("\\") and last[1:].isalpha():
            self.append(" ")
        self.append(piece)

    def last(self) -> str:
        return next((piece for piece in reversed(self[-4:]) if piece), "")

    def touches(self) -> bool:
        """Whether a number written now would grow together with what stands before it: 3\\frac{1}{2} is not 31/2."""
        return self.last()[-1:].isalnum() or self.last()[-1:] in tuple(")}]")

    def simple(self, start: int) -> bool:
        """Whether what was written after `start` needs no brackets as an operand."""
        return len(self) - start <= 6 and SIMPLE_OPERAND.fullmatch("".join(self[start + 1 :]).strip()) is not None


def _plain_notation(text: str) -> str:
    """One reading of the text: commands by what they mean, braces by whom they belong to."""
    pieces, frames, position = _Pieces(), list[_Frame](), 0
    while position < len(text):
        token = TOKEN.match(text, position)
        assert token is not None  # every character is one of TOKEN's kinds
        word, position = token.group(), token.end()
        if word == "{":
            position = _brace(text, position, pieces, frames)
        elif word == "}":
            position = _close(text, position, pieces, frames)
        elif word in FRACTIONS or word in WRAPPERS:
            position = _argument(word, text, position, pieces, frames)
        elif word == "°" or (word == r"\circ" and pieces.last().endswith("^")):
            _drop_caret(pieces)
        else:
            pieces.write(COMMAND_TEXT.get(word, word))
    for frame in frames:
        for index, original in frame.originals:
            pieces[index] = original
    return SCIENTIFIC.sub(lambda match: f"{match[1]}e{match[2] or match[3]}", "".join(pieces))


def _argument(word: str, text: str, position: int, pieces: _Pieces, frames: list[_Frame]) -> int:
    """A command with arguments; it keeps its name when they are not there."""
    opening, digits = OPENING_BRACE.match(text, position), DIGITS.match(text, position)
    separator = " " if word in FRACTIONS and pieces.touches() else ""
    if opening:
        frames.append(_Frame("numerator" if word in FRACTIONS else "wrapper", [(len(pieces), word + opening.group())]))
        pieces.append(separator)
        return opening.end()
    if digits and word in FRACTIONS:
        pieces.append(f"{separator}{digits[1]}/{digits[2]}")
        return digits.end()
    pieces.write(word)
    return position


def _brace(text: str, position: int, pieces: _Pieces, frames: list[_Frame]) -> int:
    """An opening brace that belongs to no command: thousands `{,}`, degrees, or a group. Returns where to go on."""
    if text.startswith(",}", position):
        thousands = pieces.last()[-1:].isdigit() and THREE_DIGITS.match(text, position + 2)
        pieces.append("" if thousands else ",")
        return position + 2
    degrees = DEGREE_SIGN.match(text, position - 1)
    if degrees and pieces.last().endswith("^"):
        _drop_caret(pieces)
        return degrees.end()
    frames.append(_Frame("group", [(len(pieces), "{")]))
    pieces.append("{")
    return position


def _close(text: str, position: int, pieces: _Pieces, frames: list[_Frame]) -> int:
    """A closing brace, by what it closes; after a numerator the denominator is opened. Returns where to go on."""
    if not frames or frames[-1].kind == "group":
        if frames:
            frames.pop()
        pieces.append("}")
        return position
    frame = frames.pop()
    if frame.kind == "wrapper":
        return position
    opening, letter = OPENING_BRACE.match(text, position), LETTER.match(text, position)
    if frame.kind == "numerator" and not opening and not letter:
        pieces[frame.start] = frame.originals[-1][1]
        pieces.append("}")
        return position
    closing = "" if pieces.simple(frame.start) else ")"
    if closing:
        pieces[frame.start] += "("
    if frame.kind == "denominator":
        pieces.append(closing)
        return position
    if opening:
        frames.append(_Frame("denominator", [*frame.originals, (len(pieces), "}" + opening.group())]))
        pieces.append(closing + "/")
        return opening.end()
    assert letter is not None
    pieces.append(f"{closing}/{letter[1]}")
    return letter.end()


def _drop_caret(pieces: _Pieces) -> None:
    """A degree sign says nothing, and the caret that raised it goes with it."""
    for index in range(len(pieces) - 1, max(-1, len(pieces) - 5), -1):
        if pieces[index]:
            pieces[index] = pieces[index].removesuffix("^")
            return
