"""Text from a log made harmless: in Markdown it is code, in LaTeX every sign that TeX would obey is spelt out.

A name may hold anything. In Markdown a backslash does not help against mentions, references and bare addresses, which
GitHub links after the text is parsed; only code is left alone, so whatever is not a plain word is put into code.
"""

import re
import unicodedata

LONGEST = 120  # letters of a name that are shown
_PLAIN = re.compile(
    r"[\[(]*[<>=]*"  # an interval or a bracket opens
    r"(?:[+-]?\d[\d.,]*(?:e[+-]?\d+)?%?|[A-Za-z]+(?:['-][A-Za-z]+)*|[-/]?)"  # a number, a word, a dash
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
    fence = "`" * (_longest_row_of_backticks(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def fenced(text: str) -> str:
    """A command as a block of code of one line."""
    fence = "`" * max(3, _longest_row_of_backticks(text) + 1)
    return f"{fence}\n{printable(text, most=2000)}\n{fence}"


def prose(text: str, names: dict[str, str]) -> str:
    """Words of ours with names in them: each key of `names`, one letter that no word has, becomes its name as code."""
    words = [_word(word, names) for word in text.split()]
    return " ".join(words)


def tex(text: str) -> str:
    """A name as LaTeX prints it; control characters are dropped, letters of other alphabets stay."""
    spaced = "".join(" " if letter.isspace() else letter for letter in text[:LONGEST])
    kept = (letter for letter in spaced if unicodedata.category(letter) not in ("Cc", "Cf", "Cs"))
    return "".join(_TEX.get(letter, letter) for letter in kept).strip()


def printable(text: str, most: int = LONGEST) -> str:
    """A text on one line, without letters that cannot be seen, and cut where it is long."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in cut)


def _longest_row_of_backticks(text: str) -> int:
    return max((len(row) for row in re.findall("`+", text)), default=0)


def _word(word: str, names: dict[str, str]) -> str:
    bare = word.rstrip(".,;:")
    if bare in names:
        return code(names[bare]) + word[len(bare) :]
    if _PLAIN.fullmatch(word):
        return re.sub(r"[\[\]]", r"\\\g<0>", word).replace("<", "&lt;").replace(">", "&gt;")
    for key, name in names.items():
        bare = bare.replace(key, name)
    if re.fullmatch(r"'[\w.-]+'", bare):
        bare = bare[1:-1]  # code needs no quotes
    return code(bare) + word[len(word.rstrip(".,;:")) :]
