r"""Words: equal after a conservative normalisation, or wrong. An answer that holds the gold among other words is wrong.

Ignored are Unicode forms (NFKC), case, white space, one final full stop, and what only surrounds an answer: quotation
marks, backticks, Markdown bold, `$...$`, `\text{...}`. Articles, inner punctuation and word order are not.
`details` may hold `accepted`: other answers that are as good as the gold one.
"""

import re
import unicodedata
from collections.abc import Iterable

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement

MAX_LAYERS = 16  # of wrapping that are taken off; nobody writes more
MAX_SHRINK_FACTOR = 8  # times by which normalisation may shorten a text: NFKC composes up to four characters into one
MAX_ACCENTS = 30  # accents on one letter; Unicode's stream-safe limit. Longer runs make NFKC quadratic
WRAPPERS = (
    ("**", "**"), ("__", "__"), ("*", "*"), ("_", "_"), ("```", "```"), ("`", "`"), ("$$", "$$"), ("$", "$"),
    (r"\(", r"\)"), (r"\[", r"\]"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("«", "»"), ("„", "“"),
    *((rf"\{command}{{", "}") for command in ("text", "textbf", "textit", "textrm", "mathrm", "mathbf", "boxed")),
)  # fmt: skip


def decide(case: Case) -> Judgement:
    """Is the answer one of the accepted texts?"""
    if unusable := readable(case):
        return Judgement(Verdict.FAILED, unusable)
    accepted = _accepted(case)
    answer = " ".join(case.answer.split())
    if not answer:
        return Judgement(Verdict.UNREAD, "the answer is empty")
    if too_long(answer, accepted):
        return Judgement(Verdict.WRONG, f"{len(answer):,} characters are too many to be the gold answer")
    normalised = normalised_text(answer)
    if any(normalised == normalised_text(text) for text in accepted):
        return Judgement(Verdict.CORRECT, solution=normalised)
    return Judgement(Verdict.WRONG, f"{normalised[:60]!r} is not {normalised_text(accepted[0])[:60]!r}")


def readable(case: Case) -> str:
    """Empty, or why the gold answer cannot be used."""
    more = case.details.get("accepted", [])
    if not isinstance(more, list | tuple) or not all(isinstance(text, str) for text in more):
        return f"details.accepted is {str(more)[:60]!r}; give a list of strings"
    accepted = _accepted(case)
    if not accepted:
        return "there is no gold answer"
    empty = [text for text in accepted if not text.strip()]
    return f"gold answer {empty[0]!r} is empty" if empty else ""


def normalised_text(text: str) -> str:
    """A text in its normal form: the same for all texts that differ only in what the module's docstring ignores.

    >>> normal(" **The  Seine.** ")
    'the seine'
    """
    text = " ".join(text.split())
    if not _too_many_accents(text):
        text = unicodedata.normalize("NFKC", text)
    text = " ".join(text.casefold().split())
    for _ in range(MAX_LAYERS):
        inner = _unwrap_text(text)
        if inner == text:
            break
        text = inner
    return text


def too_long(answer: str, texts: Iterable[str]) -> bool:
    """Is an answer too long to be equal to any of the texts, whatever normalisation does? Keeps hostile text cheap."""
    return len(answer) > MAX_SHRINK_FACTOR * max(map(len, texts), default=0) + 256


def _accepted(case: Case) -> list[str]:
    """The gold answer and the alternatives of the details."""
    more = case.details.get("accepted", [])
    others = [text for text in more if isinstance(text, str)] if isinstance(more, list | tuple) else []
    return ([case.gold] if case.gold is not None else []) + others


def _unwrap_text(text: str) -> str:
    """A text without one layer of wrapping and without its final full stop; never empty."""
    if text.endswith(".") and not text.endswith("..") and len(text) > 1:
        text = text[:-1].rstrip()
    for left, right in WRAPPERS:
        inside = text[len(left) : -len(right)]
        if text.startswith(left) and text.endswith(right) and inside.strip() and _closes_last(inside, left, right):
            return inside.strip()
    return text


def _closes_last(inside: str, left: str, right: str) -> bool:
    r"""Do the two ends belong together? Not in `"yes" or "no"`, nor in `\text{a} + \text{b}`."""
    if right not in inside:
        return True
    if left == right or right != "}":
        return False
    depth = 1
    for match in re.finditer(r"[{}]", inside):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return False
    return True


def _too_many_accents(text: str) -> bool:
    """Does any letter carry more accents than a language has?"""
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run > MAX_ACCENTS:
            return True
    return False
