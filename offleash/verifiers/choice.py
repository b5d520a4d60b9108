r"""Multiple choice: the letter of a choice, or its text. `details` may hold `choices`: the texts in the order A, B, C.

Recognised are `C`, `(c)`, `C.`, `C) text`, `\text{C}`, `option C`, `the answer is C`, and a choice's own text. A letter
followed by the text of another choice, several letters, and a letter beyond the choices are wrong. When the gold answer
is a set (`A,C`), so must the answer be. An answer that does not name a choice is unread.
"""

import re
import string as alphabet

from offleash.data.verdict import Verdict
from offleash.verifiers.string import normalised_text, too_long
from offleash.verifiers.verifier import Case, Judgement

LETTERS = alphabet.ascii_uppercase
LONGEST = 2000  # characters of an answer that names a choice in other words than its text
LATEX = re.compile(
    r"\\(?:textbf|textit|textrm|text|mathrm|mathbf|boxed|left|right)(?![A-Za-z])|\\[,;: ()]|[${}*`~]|\\_"
)
LEADING_PHRASE = re.compile(
    r"(?:the|my|both|final|correct|best|right|answer|option|choice|letter|is|would be|thus|so)\b[ :,=]*|[:=] *",
    re.IGNORECASE,
)
TRAILING_PHRASE = re.compile(r"(?i)\bis (?:the )?(?:correct|right|best)(?: answer| option| choice| one)?\.?$")
LETTER = re.compile(r"[(\[]?([A-Za-z])(?:[)\].:]|(?![A-Za-z0-9]))")
LETTER_SEPARATORS = re.compile(r"(?:[ ,;/&+]|\band\b|\bor\b)*", re.IGNORECASE)
HEDGE = re.compile(r"(?i)\bor\b|/")


def decide(case: Case) -> Judgement:
    """Does the answer name the gold choice, or all the gold choices?"""
    choices = _choices(case)
    if unusable := readable(case):
        return Judgement(Verdict.FAILED, unusable)
    gold_letters = _gold(case.gold or "", choices)
    answer = " ".join(case.answer.split())
    if not answer:
        return Judgement(Verdict.UNREAD, "the answer is empty")
    if len(answer) > LONGEST and too_long(answer, choices):
        return Judgement(Verdict.UNREAD, f"{len(answer):,} characters are too many to name a choice")
    named, reason = _named_choices(answer, choices)
    if reason:
        return Judgement(Verdict.WRONG, reason)
    if not named:
        return Judgement(Verdict.UNREAD, f"{answer[:60]!r} does not name a choice")
    not_offered = sorted(named - set(LETTERS[: len(choices)])) if choices else []
    if not_offered:
        return Judgement(Verdict.WRONG, f"choice {not_offered[0]} does not exist: there are {len(choices)}")
    if named != gold_letters:
        return Judgement(Verdict.WRONG, f"{_letters_text(named)} is not {_letters_text(gold_letters)}")
    if len(gold_letters) > 1 and HEDGE.search(answer) and _by_text(answer, choices) is None:
        return Judgement(Verdict.WRONG, "the answer names one or the other, not both")
    return Judgement(Verdict.CORRECT, solution=_letters_text(gold_letters))


def readable(case: Case) -> str:
    """Empty, or why the gold answer and the choices cannot be used."""
    stated_choices = case.details.get("choices")
    if stated_choices is not None:
        if not isinstance(stated_choices, list | tuple) or not all(isinstance(text, str) for text in stated_choices):
            return f"details.choices is {str(stated_choices)[:60]!r}; give a list of strings"
        if not 2 <= len(stated_choices) <= len(LETTERS):
            return f"details.choices holds {len(stated_choices)} choices; give 2 to {len(LETTERS)}, one per letter"
    if case.gold is None or not case.gold.strip():
        return "there is no gold answer"
    choices = _choices(case)
    gold_letters = _gold(case.gold, choices)
    if not gold_letters:
        names = f"none of the {len(choices)} choices" if choices else "no letter"
        return f"gold answer {case.gold[:60]!r} is {names}; give a letter, or the text of one of details.choices"
    text = _by_text(case.gold, choices)
    if text is not None and {text} != gold_letters:
        return f"gold answer {case.gold[:60]!r} is both a letter and the text of choice {text}; give the letter"
    return ""


def _choices(case: Case) -> list[str]:
    """The texts of the choices; empty where the problem has none and letters alone are compared."""
    stated_choices = case.details.get("choices")
    return (
        [text for text in stated_choices if isinstance(text, str)] if isinstance(stated_choices, list | tuple) else []
    )


def _gold(gold: str, choices: list[str]) -> set[str]:
    """The letters of the gold answer; empty when it names none of the choices."""
    allowed = LETTERS[: len(choices)] if choices else LETTERS
    letters = _letters(_strip_wrapping(gold), separator_kind=allowed)
    if letters and letters <= set(allowed):
        return letters
    text = _by_text(gold, choices)
    return {text} if text else set()


def _named_choices(answer: str, choices: list[str]) -> tuple[set[str], str]:
    """The letters that an answer names, and the reason when it contradicts itself."""
    bare_answer = _strip_wrapping(answer)
    text = _by_text(answer, choices) or _by_text(bare_answer, choices)
    letters = _letters(bare_answer, separator_kind=LETTERS[: len(choices)] if choices else LETTERS)
    if text and letters and letters != {text}:
        return set(), f"{answer[:30]!r} is both a letter and the text of choice {text}"
    if text or letters:
        return letters or {text or ""}, ""
    return _letter_and_text(bare_answer, choices)


def _strip_wrapping(text: str) -> str:
    """A text without markup and without the words that lead up to an answer."""
    text = " ".join(LATEX.sub(" ", text).split()).strip("\"' ")
    position = 0
    while match := LEADING_PHRASE.match(text, position):
        position = match.end()
    rest = text[position:] or text
    return TRAILING_PHRASE.sub("", rest).strip().rstrip(".").rstrip()


def _letters(text: str, separator_kind: str) -> set[str]:
    """The letters of a text that holds nothing else: `C`, `(A) and (C)`, `AC`; empty otherwise."""
    if 2 <= len(text) <= len(separator_kind) and set(text) <= set(separator_kind) and len(set(text)) == len(text):
        return set(text)
    letters, position = set(), 0
    while match := LETTER.match(text, position):
        letters.add(match[1].upper())
        position = match.end()
        separator = LETTER_SEPARATORS.match(text, position)
        position = separator.end() if separator else position
    return letters if position == len(text) else set()


def _letter_and_text(text: str, choices: list[str]) -> tuple[set[str], str]:
    """`C) Paris`, `C Paris`: a letter with the text of its choice, or with other words after a bracket or a stop."""
    match = re.match(r"[(\[]?([A-Za-z])([)\].:,]| -)? ?(?=\S)", text)
    if match is None or (match[2] is None and match.end() == match.end(1)):
        return set(), ""
    letter, rest = match[1].upper(), text[match.end() :]
    other = _by_text(rest, choices)
    if other == letter:
        return {letter}, ""
    if other is not None:
        return set(), f"letter {letter} with the text of choice {other}"
    if match[2] is None or match[2] == "," or re.match(r"(?i)(?:is|was|are|cannot|can't|not)\b", rest):
        return set(), ""  # `A dog`, `(C) is false`: no choice is made
    other_letters = {
        letter.upper() for pair in re.findall(r"[(\[]([A-Za-z])[)\]]|\b([B-HJ-Z])\b(?!')", rest) for letter in pair
    }
    other_letters -= {"", letter}
    if other_letters & set(LETTERS[: len(choices) or 5]):
        return set(), f"several choices: {_letters_text(other_letters | {letter})}"
    return {letter}, ""


def _by_text(text: str, choices: list[str]) -> str | None:
    """The letter of the one choice whose text this is."""
    if too_long(text, choices):
        return None
    matching_letters = [
        LETTERS[i] for i, choice in enumerate(choices) if normalised_text(choice) == normalised_text(text)
    ]
    return matching_letters[0] if len(matching_letters) == 1 else None


def _letters_text(letters: set[str]) -> str:
    return ",".join(sorted(letters))
