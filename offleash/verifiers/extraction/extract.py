"""Extract the final answer from a sample's text: steps tried in order, of which the first success wins.

Every model gets the same steps, and the step that succeeded is stored with the verdict: a formatting habit that one
model has and the other lacks would otherwise look like a change of support. All steps are linear in the text; the
patterns are in marks.py and sentences.py.

Steps go from marks that a writer makes on purpose (tags, boxes, ####) over statements ("the answer is") to guesses from
position (the closing sentence, the last formula, the last number, the whole text). A later step may take a number from
the middle of a derivation for the answer, so it must not run where an earlier one has found a mark. Which steps a
verifier uses follows from its problems: `last_number` suits grade-school problems, whose every answer is a number, and
would credit luck on formulas.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from offleash.verifiers.extraction import sentences
from offleash.verifiers.extraction.marks import after_hashes, boxed, code, has_box, last_box, tagged, without_boxes

THINK_START, THINK_END = "<think>", "</think>"
UNFINISHED_STEP = "unfinished"  # the step recorded where the text ends inside its reasoning
LONGEST = 20_000  # characters of an answer; nothing longer is taken for one
SHORT_TEXT = 1_000  # characters of a text that can be an answer as a whole


_MARKDOWN = re.compile(r"^[*`_]+(?=[^*`_])|(?<=[^*`_])[*`]+(?=[.,]?$)")  # marks around an answer


class Extraction(NamedTuple):
    """The answer, raw, and the step that found it; without an answer the step is 'unfinished' or None."""

    answer: str | None
    step: str | None


class SearchRegion(NamedTuple):
    """Where a step looks: the text after the reasoning, and whether the sample was cut off."""

    text: str
    after_reasoning: bool  # a finished block of reasoning came before
    truncated: bool


def extract(text: str, steps: Sequence[str], truncated: bool = False, opened: bool = False) -> Extraction:
    r"""The answer of a text, and the step that found it.

    Args:
        text: a whole sample.
        steps: keys of STEP_FUNCTIONS, in order.
        truncated: the sample was cut off at its token limit. Steps that read a closing sentence do not apply: the text
            has none.
        opened: the prompt had already opened the block of reasoning.

    Returns:
        The answer, raw but for white space, Markdown and a final full stop. No answer with the step `unfinished` where
        the text ends inside its reasoning, whatever it holds: the model was not done.

    >>> extract("So x = 4. Thus the answer is $5$.", ("boxed", "stated"))
    Extraction(answer='5', step='stated')
    >>> extract("<think> maybe \boxed{5}", ("boxed", "stated"))
    Extraction(answer=None, step='unfinished')
    """
    end = text.rfind(THINK_END) if THINK_END in text else -1
    start = text.rfind(THINK_START) if THINK_START in text else -1
    if start > end or (opened and end < 0):
        return Extraction(None, UNFINISHED_STEP)
    region = SearchRegion(text[end + len(THINK_END) :] if end >= 0 else text, end >= 0, truncated)
    for step in steps:
        answer = _clean_answer(STEP_FUNCTIONS[step](region), step)
        if answer:
            return Extraction(answer, step)
    if end >= 0:  # the reasoning is finished and gives no answer after it: the last marked answer inside it counts
        inside = SearchRegion(text, True, truncated)
        for step in steps:
            answer = _clean_answer(STEP_FUNCTIONS[step](inside), step) if step in MARKED_STEPS else None
            if answer:
                return Extraction(answer, step)
    return Extraction(None, None)


# One function per step. Those that rely on how a text ends do not read truncated samples.


def _tag(region: SearchRegion) -> str | None:
    answer = tagged(region.text, region.truncated)
    return without_boxes(answer) if answer is not None and has_box(answer) else answer


def _boxed(region: SearchRegion) -> str | None:
    """The last box, unless "the final answer is" comes after it: the later word counts."""
    answer = boxed(region.text)
    if answer is None or not sentences.final_statement(region.text, last_box(region.text)):
        return answer
    return None


def _after_hashes(region: SearchRegion) -> str | None:
    line = after_hashes(region.text)
    return sentences.of_line(line) if line else line


def _statement(region: SearchRegion) -> str | None:
    return sentences.stated_answer(region.text, region.truncated)


def _conclusion(region: SearchRegion) -> str | None:
    return None if region.truncated else sentences.concluded_answer(region.text)


def _formula(region: SearchRegion) -> str | None:
    return None if region.truncated else sentences.last_formula(region.text)


def _after_think(region: SearchRegion) -> str | None:
    return region.text.strip() if region.after_reasoning and not region.truncated else None


def _code(region: SearchRegion) -> str | None:
    return code(region.text, region.truncated)


def _letter(region: SearchRegion) -> str | None:
    return None if region.truncated else sentences.letter(region.text)


def _last_number(region: SearchRegion) -> str | None:
    return None if region.truncated else sentences.last_number(region.text)


def _whole_text(region: SearchRegion) -> str | None:
    text = region.text.strip()
    return text if len(text) <= SHORT_TEXT and not region.truncated else None


def _expression(region: SearchRegion) -> str | None:
    return None if region.truncated else sentences.expression(region.text)


def _program(region: SearchRegion) -> str | None:
    """The text itself, as HumanEval's completions are: kept to the letter, since indentation has a meaning."""
    return region.text if region.text.strip() else None


STEP_FUNCTIONS: dict[str, Callable[[SearchRegion], str | None]] = {
    "tag": _tag,
    "boxed": _boxed,
    "hashes": _after_hashes,
    "stated": _statement,
    "concluded": _conclusion,
    "formula": _formula,
    "after_think": _after_think,
    "code": _code,
    "letter": _letter,
    "last_number": _last_number,
    "expression": _expression,
    "whole": _whole_text,
    "program": _program,
}
MARKED_STEPS = {"tag", "boxed", "code"}  # marks that nobody makes by accident, so they count inside reasoning too
# Marks that a writer makes on purpose, by which an answer is read where no verifier says how.
ANSWER_STEPS = ("tag", "boxed", "hashes", "stated")
VERBATIM_STEPS = {"code", "program"}  # indentation and final stops have a meaning


def _clean_answer(answer: str | None, step: str) -> str | None:
    """Without the Markdown and the full stop of the sentence around it; a tag's content has no sentence around it."""
    if answer is None or step in VERBATIM_STEPS:
        return answer
    if len(answer) > LONGEST:
        return None
    answer = _MARKDOWN.sub("", answer.strip())
    if answer.endswith(".") and not answer.endswith("..") and step != "tag":
        answer = answer[:-1].rstrip()
    return answer.strip()
