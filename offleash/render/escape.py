"""Text that a model or a log wrote, made safe for a page: shown as it is, never run, and unable to turn the writing."""

import json
import unicodedata


def valid_utf8(text: str) -> str:
    """A text that every server and file takes: a lone surrogate, which a model can write, is no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def clean(text: str) -> str:
    """Text on one line without control characters, terminal escapes or marks that turn the direction of writing."""
    return " ".join("".join(_clean_letter(letter) for letter in text).split())


def _clean_letter(letter: str) -> str:
    if letter.isspace():
        return " "
    return letter if letter.isprintable() else "\ufffd"


_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PICTURES = 0x2400  # the block of pictures of control characters
_SCRIPT = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def visible(text: str) -> str:
    """The text with control characters and marks that turn the direction of writing made visible; lines stay lines."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_letter(letter) for letter in text)


def clipped(text: str, letters: int) -> str:
    """The beginning of a text, with an ellipsis where it goes on."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def middle(text: str, letters: int) -> str:
    """Both ends of a text, since ids differ at either; an ellipsis stands for what is left out."""
    if len(text) <= letters:
        return text
    head = letters // 2
    return f"{text[:head]}…{text[len(text) - (letters - head - 1) :]}"


def one_line(text: str, letters: int) -> str:
    """The beginning of a text on one line, made visible."""
    return visible(clipped(" ".join(text[: 4 * letters].split()), letters))


def script_json(value: object) -> str:
    """JSON that may stand inside a <script> block: nothing in it can end the block."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_SCRIPT)


def _letter(letter: str) -> str:
    if letter in "\n\t" or letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x20:
        return chr(_PICTURES + code)
    if letter in _BIDI or unicodedata.category(letter) == "Cc":
        return f"[U+{code:04X}]"
    return letter
