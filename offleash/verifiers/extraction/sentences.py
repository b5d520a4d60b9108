"""Answers in prose: "the final answer is 5", a closing sentence, a last formula or number, the letter of a choice.

Linear in the text.
"""

import re

MAX_STATEMENTS_TRIED = (
    4  # statements looked at from the end: the last one may be empty ("The answer is:"), rarely several are
)
TAIL_CHARACTERS = 4_000  # characters at the end of a text in which an answer in words is looked for
NUMBER = (
    r"[-+−]?\s?(?:[$€£]\s?|\\\$)?(?:\d{1,3}(?:(?:,|\{,\}|,\\!)\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+)?(?:\s?\\?%)?"
    r"|[-+−]?(?:\$)?\.\d+"
)
_NUMBER = re.compile(rf"(?<![A-Za-z0-9_.\\^{{]){NUMBER}|(?<=\*\*){NUMBER}")
_SIGNS = ("|>", "</s>", "<eos>", "orrect", "INST]", "inst]")  # every ending holds one: looked for before the pattern
_ENDINGS = re.compile(  # what models add after their last word
    r"(?:<\|[^|<>]{1,30}\|>\s*\w*|</s>|<eos>|I hope (?:it|this) is correct\.?|\[/?INST\])\s*$", re.IGNORECASE
)
_MARKERS = ("answer", "réponse", "\na:")  # in lower case; what may follow them is _STATED
_STATED = re.compile(
    r"(?:\na:[ \t]*(?=\S)|(?:answer|réponse)\b"
    r"(?:\s+(?:to|of|for|therefore|thus|should|must|will|would|then|we get)\b[^.:\n]{0,80}?)?"
    r"\s*(?:\*\*|__)?\s*(?::|=|\bis\b|\bare\b|\bbe\b|\best\b|\bcomes\s+out\s+to\b)"
    r"\s*(?::|(?:indeed|therefore|thus|simply|exactly|for sure|then|now|just)\b)?\s*(?:\*\*|__)?)",
    re.IGNORECASE,
)
_FINAL_ANSWER = re.compile(r"final\s+answer\s*(?:\*\*)?\s*(?::|\bis\b)\s*", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"[-+−$€£\d.,/\s%°]{1,60}")
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{3,}")
_COPULA = re.compile(  # words after which a sentence gives its result: "is", "gives", "=", a colon that is no ratio
    r"(?:\b(?:is|are|was|were|equals?|be|gives?|gets?|by|(?<!\d )to|about|approximately|roughly|worth|"
    r"totals?)\b|it's|there're|[=≈]|:(?!\d))\s*(?:exactly|about|approximately|roughly|only|just|"
    r"equal to|worth|up to|now|a total of|\*\*|:)?\s*",
    re.IGNORECASE,
)
_FORMULA = re.compile(
    r"\$\$(?P<a>[^$]{1,2000})\$\$|\\\[(?P<b>.{1,2000}?)\\\]|\\\((?P<c>.{1,2000}?)\\\)"
    r"|(?<![\\$])\$(?!\d[^$]{0,2000}\s\$)(?P<d>(?:[^$\n\\]|\\.){1,2000}?)\$(?!\d)",  # two prices make no formula
    re.DOTALL,
)
_WORDS = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{3,}\s+[A-Za-z]{2,}|[^\W\d_A-Za-zα-ωΑ-Ω]{2,}")
# A full stop ends a sentence unless it may be a decimal point or an ellipsis.
_SENTENCE_END = re.compile(r"(?<=[^\d\s.][.!?])\s+(?=[A-Z\"'(\[])|(?<=\d[.!?])\s+(?=[A-Z\"'(\[])|\n\s*\n|。")
_CONCLUSION = re.compile(r"\b(?:therefore|thus|hence|so|final answer|in total|altogether|conclusion|finally)\b", re.I)
_NOT_WORDS = re.compile(
    r"\\(?:text|mbox|mathrm|textbf|operatorname)\s*\{[^{}]*\}"
    r"|\b(?:sqrt|(?:arc)?(?:sin|cos|tan)|cot|sec|csc|log|exp)\b(?=\s*\()"
)
_SINGLE_FORMULA = r"\$\$[^$]{1,300}\$\$|\\\((?:(?!\\\)).){1,300}\\\)|\$[^$\n]{1,300}\$"
_LISTED = re.compile(
    rf"(?:{_SINGLE_FORMULA})(?:\s*,?\s*(?:and|or)\s+(?:{_SINGLE_FORMULA})|\s*,\s*(?:{_SINGLE_FORMULA}))+"
)
_ATTACHED_SYMBOLS = re.compile(r"(?=[√π^:/×·(\\])[^\s,;]{1,60}")
_LIST_CONTINUES = re.compile(
    rf"\s*(?:,\s*(?:(?:and|or)\s+)?{NUMBER}|(?:and|or|to|out of)\s+(?:{NUMBER}|[a-z]\s*=))", re.I
)
_ALTERNATIVES = re.compile(r"=\s*[-−\d.,/]+\s*or\s+[A-Za-z]\s*=")
_HEDGED = re.compile(  # the number of such a sentence is a bound, a step or a denial, not the answer
    r"\b(?:less|more|greater|fewer|smaller|larger|at least|at most|between|not|step|minus|negative)\b|^\s*#", re.I
)
_STANDALONE = re.compile(r"(?<![\w'\\])\(?([A-Z])\)?(?![\w'])")
_PICK = re.compile(r"(?:it's|it is|is|choose|option|choice|pick|select|answer)\s*:?\s*\**\(?([A-Z])\)?(?![\w'])", re.I)


def tail(text: str) -> str:
    """The end of a text without what models add after their last word."""
    end = text[-TAIL_CHARACTERS:].rstrip() if not text[-1:].isspace() else text.rstrip()[-TAIL_CHARACTERS:]
    for _ in range(4):
        last = end[-40:]
        if not any(sign in last for sign in _SIGNS):
            break
        shortened = _ENDINGS.sub("", end).rstrip()
        if shortened == end:
            break
        end = shortened
    return end


def stated_answer(text: str, truncated: bool) -> str | None:
    """What follows the last "final answer is", "answer:" or a line's "A:"."""
    end = "\n" + tail(text)
    low, before = end.lower(), len(end)
    if len(low) != len(end):
        low = end  # letters whose small form has another length: places would not agree
    for _ in range(MAX_STATEMENTS_TRIED):
        start = max(low.rfind(marker, 0, before) for marker in _MARKERS)
        if start < 0:
            return None
        before = start
        statement = _STATED.match(end, start)
        rest = end[statement.end() :].lstrip() if statement else ""
        if not rest or (truncated and "\n" not in rest):
            continue  # nothing follows, or it was cut off while it said so
        answer = _of_statement(rest)
        if answer:
            return answer
    return None


def concluded_answer(text: str) -> str | None:
    """The number or formula that the closing sentence comes to: "Thus there are 12 such numbers."."""
    return _of_sentence(_last_sentence(tail(text)), closing=True)


def final_statement(text: str, start: int) -> bool:
    """Whether "the final answer is ..." with something mathematical stands after a place, near the end of the text."""
    rest = text[max(start, 0) :]
    if "inal" not in rest and "INAL" not in rest:
        return False
    end = tail(rest)
    for statement in [*_FINAL_ANSWER.finditer(end)][-MAX_STATEMENTS_TRIED:]:
        answer = _of_statement(end[statement.end() :].lstrip())
        if answer and re.search(r"[\d\\]", answer):
            return True
    return False


def last_formula(text: str) -> str | None:
    """The last formula between dollars or brackets, where it stands in the closing sentence or line."""
    end = tail(text)
    sentence = _last_sentence(end)
    formulas = [formula for formula in _FORMULA.finditer(end) if _is_maths(_formula_content(formula))]
    if not formulas or formulas[-1].end() < len(end) - max(len(sentence), 1):
        return None
    return _formula_content(formulas[-1]).strip()


def last_number(text: str) -> str | None:
    """The last number of the text, whatever it says: a guess, used only where every answer is a number."""
    numbers = _NUMBER.findall(tail(text))
    return numbers[-1].strip() if numbers else None


def letter(text: str) -> str | None:
    """The letter of a choice: at the start of a line of its own, after "it's" or "option", or the only one named."""
    end = tail(text)
    first = re.match(r"\s*\**\(?([A-Z])\)?\**\s*(?:[.:,)。]|$)", end)
    if first:
        return first[1]
    picked_letters = _PICK.findall(end)
    if picked_letters:
        return str(picked_letters[-1]).upper()
    named = set(_STANDALONE.findall(_last_sentence(end))) - {"I"}
    return named.pop() if len(named) == 1 else None


def expression(text: str) -> str | None:
    """A short text that is nothing but an answer: no sentence around it."""
    if len(text) > 1_000:
        return None
    whole = tail(text).strip()
    if not whole or len(whole) > 300 or "\\boxed" in whole or not _is_maths(whole):
        return None
    formula = _FORMULA.fullmatch(whole.rstrip(". "))
    if formula:
        return _formula_content(formula).strip()
    if re.fullmatch(r"[A-Za-z][A-Za-z'-]{1,40}[.!]?", whole):
        return whole
    has_no_words = not _WORD.search(_NOT_WORDS.sub("", whole))
    return whole if has_no_words or _PLAIN_NUMBER.fullmatch(whole) else None


def _of_statement(rest: str) -> str | None:
    """The answer at the start of what follows a marker."""
    number_list = _LISTED.match(rest.lstrip("\"'*: "))
    if number_list:
        return ", ".join(_formula_content(match).strip() for match in _FORMULA.finditer(number_list[0]))
    formula = _FORMULA.match(rest.lstrip("\"'*: "))
    if formula and _is_maths(_formula_content(formula)):
        return _formula_content(formula).strip()
    sentence = _SENTENCE_END.split(rest.strip(), maxsplit=1)[0].split("\n", 1)[0].strip()
    if not sentence:
        return None
    if _is_maths(sentence) and len(sentence) <= 300:
        return sentence.strip(" \"'*")
    return _of_sentence(sentence, closing=False)


def _of_sentence(sentence: str, closing: bool) -> str | None:
    """What the last verb of a sentence is followed by; else its only number, if it is a conclusion or very short."""
    formulas = {match.start(): match for match in _FORMULA.finditer(sentence) if _is_maths(_formula_content(match))}
    prose = _without_formulas(sentence, formulas)  # verbs and numbers inside formulas are none of the sentence's
    if _ALTERNATIVES.search(prose):
        return None
    for verb in reversed([*_COPULA.finditer(prose)][-12:]):
        if verb.end() in formulas:
            number_list = _LISTED.match(sentence, verb.end())
            if number_list:
                return ", ".join(_formula_content(match).strip() for match in _FORMULA.finditer(number_list[0]))
            return _formula_content(formulas[verb.end()]).strip()
        number = _NUMBER.match(prose, verb.end())
        if number:
            return _whole_value(prose, number)
    if formulas or (closing and len(sentence) > 60 and not _CONCLUSION.search(sentence)):
        return None
    if _HEDGED.search(prose):
        return None
    numbers = [*_NUMBER.finditer(prose)]
    return _whole_value(prose, numbers[0]) if len(numbers) == 1 else None


def _whole_value(text: str, number: re.Match[str]) -> str | None:
    """A number with what is written onto it (`2√3`, `2:3`); None where it is one of several or part of a phrase."""
    if _LIST_CONTINUES.match(text, number.end()):
        return None
    attached = _ATTACHED_SYMBOLS.match(text, number.end())
    return (number[0] + (attached[0].rstrip(".,;:!?*") if attached else "")).strip()


def _without_formulas(sentence: str, formulas: dict[int, re.Match[str]]) -> str:
    """The sentence with its formulas blanked out, everything else in its place."""
    for formula in formulas.values():
        sentence = sentence[: formula.start()] + "\0" * (formula.end() - formula.start()) + sentence[formula.end() :]
    return sentence


def _last_sentence(text: str) -> str:
    parts = [part for part in _SENTENCE_END.split(text) if part.strip()]
    return parts[-1].strip() if parts else ""


def _formula_content(formula: re.Match[str]) -> str:
    return next(part for part in formula.groups() if part is not None)


def of_line(line: str) -> str | None:
    """The answer of a line that was marked as one."""
    return line if _is_maths(line) else _of_sentence(line, closing=False)


def _is_maths(text: str) -> bool:
    """Whether a text holds no run of plain words: a formula may name units and functions, not tell a story."""
    return bool(text.strip()) and not _WORDS.search(_NOT_WORDS.sub("", text))
