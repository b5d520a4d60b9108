"""Text that a model or a log wrote, made safe to show: in a terminal, on a page, in Markdown and in LaTeX.

It is shown as it is, but cannot run, steer a terminal or reverse the direction of writing.
"""

import json
import re
import unicodedata


def valid_utf8(text: str) -> str:
    """A text that every server and file takes: a lone surrogate, which a model can write, is not valid UTF-8."""
    return text.encode("utf-8", "replace").decode()


def clean(text: str) -> str:
    """Text on one line without control characters, terminal escapes or bidirectional marks."""
    return " ".join("".join(_clean_character(letter) for letter in text).split())


def _clean_character(letter: str) -> str:
    if letter.isspace():
        return " "
    return letter if letter.isprintable() else "\ufffd"


_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CONTROL_PICTURES = 0x2400  # the block of pictures of control characters
_SCRIPT = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def show_control_characters(text: str) -> str:
    """The text with control characters and bidirectional marks made visible; line breaks are kept."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(letter) for letter in text)


def clipped(text: str, letters: int) -> str:
    """The beginning of a text, with an ellipsis where it goes on."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def shorten_middle(text: str, letters: int) -> str:
    """Both ends of a text, since ids differ at either; an ellipsis stands for what is left out."""
    if len(text) <= letters:
        return text
    head = letters // 2
    return f"{text[:head]}…{text[len(text) - (letters - head - 1) :]}"


def single_line(text: str, letters: int) -> str:
    """The beginning of a text on one line, made visible."""
    return show_control_characters(clipped(" ".join(text[: 4 * letters].split()), letters))


_FORMULA = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?%?")


def spreadsheet_text(text: str) -> str:
    """A text of a CSV cell that no spreadsheet runs as a formula: '=1+1 instead of =1+1; numbers stay as they are.

    >>> spreadsheet_text("=HYPERLINK(1)"), spreadsheet_text("-5"), spreadsheet_text("-5+cmd|x"), spreadsheet_text("a=b")
    ("'=HYPERLINK(1)", '-5', "'-5+cmd|x", 'a=b')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def script_json(value: object) -> str:
    """JSON that may stand inside a <script> block: nothing in it can end the block."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_SCRIPT)


def _visible_character(letter: str) -> str:
    if letter in "\n\t" or letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if letter in _BIDI or unicodedata.category(letter) == "Cc":
        return f"[U+{code:04X}]"
    return letter


# Markdown and LaTeX: a name becomes code in the one, and every character that TeX would obey is spelt out in the other.
#
# A name may hold anything. In Markdown a backslash does not help against mentions, references and bare addresses,
# which GitHub links after the text is parsed; only code is left alone, so whatever is not a plain word is put into
# code.


LONGEST = 120  # letters of a name that are shown
_PLAIN = re.compile(
    r"[\[(]*[<>=]*"  # an interval or a bracket opens
    r"(?:[+-]?\d[\d.,]*(?:e[+-]?\d+)?%?|[A-Za-z]+(?:['-][A-Za-z]+)*|[-/]?|->)"  # a number, a word, a dash, an arrow
    r"[\])]*[.,;:?]*[\])]*"
)
_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after the \\ of the row before, a bare [ or * would be taken for an option of it
    "]": "{]}",
    "*": "{*}",
    '"': r"\textquotedblright{}",
}


def code(text: str, in_table: bool = False) -> str:
    """A name as a span of code on one line, whatever it holds; in a table its `|` is shown as a broken bar."""
    shown = printable(text)
    if not shown.strip():
        return "(no name)"
    if in_table:
        shown = shown.replace("|", "¦")  # renderers disagree on \| after a backslash, and the row would fall apart
    fence = "`" * (_longest_backtick_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def fenced(text: str) -> str:
    """A command as a block of code of one line."""
    fence = "`" * max(3, _longest_backtick_run(text) + 1)
    return f"{fence}\n{printable(text, max_characters=2000)}\n{fence}"


def prose(text: str, names: dict[str, str]) -> str:
    """A sentence with names in it: each key of `names`, a letter that no word contains, becomes its name as code."""
    words = [_escape_word(word, names) for word in text.split()]
    return " ".join(words)


def tex(text: str) -> str:
    """A name as LaTeX prints it; control characters are dropped, letters of other alphabets stay."""
    single_spaced = "".join(" " if letter.isspace() else letter for letter in text[:LONGEST])
    kept = (letter for letter in single_spaced if unicodedata.category(letter) not in ("Cc", "Cf", "Cs"))
    return "".join(_TEX.get(letter, letter) for letter in kept).strip()


def printable(text: str, max_characters: int = LONGEST) -> str:
    """A text on one line, without letters that cannot be seen, and cut where it is long."""
    shortened = text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in shortened)


def _longest_backtick_run(text: str) -> int:
    return max((len(row) for row in re.findall("`+", text)), default=0)


def _escape_word(word: str, names: dict[str, str]) -> str:
    opening, stem, closing = _without_brackets(word)
    if stem in names:
        return _markdown_brackets(opening) + code(names[stem]) + _markdown_brackets(closing)
    if _PLAIN.fullmatch(word):
        return _markdown_brackets(word).replace("<", "&lt;").replace(">", "&gt;")
    for key, name in names.items():
        stem = stem.replace(key, name)
    if re.fullmatch(r"'[\w.-]+'", stem):
        stem = stem[1:-1]  # code needs no quotes
    return _markdown_brackets(opening) + code(stem) + _markdown_brackets(closing)


def _without_brackets(word: str) -> tuple[str, str, str]:
    """A word, and what belongs to the sentence before and after it: `(step200);` is `step200`; `f(x)` stays whole."""
    match = re.fullmatch(r"([(\[]*)(.*?)([)\].,;:]*)", word, re.DOTALL)
    assert match is not None, "every part may be empty"
    opening, stem, closing = match.groups()
    for pair in ("()", "[]"):  # a bracket that opens within the name closes there too
        while closing[:1] == pair[1] and stem.count(pair[0]) > stem.count(pair[1]):
            stem, closing = stem + pair[1], closing[1:]
    return (opening, stem, closing) if stem else ("", word, "")


def _markdown_brackets(text: str) -> str:
    """Brackets that Markdown does not take for a link."""
    return re.sub(r"[\[\]]", r"\\\g<0>", text)
