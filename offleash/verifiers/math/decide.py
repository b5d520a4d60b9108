"""The `math` verifier: are two expressions equal? math-verify behind structural limits, with guards of our own.

math-verify (Kydlíček et al., 2024, github.com/huggingface/Math-Verify) parses LaTeX with an error-recovering grammar
and compares with SymPy. What it drops while parsing, and what it rounds away, would turn wrong answers into right ones,
and with thousands of samples per problem one is enough to move the problem into the support: see guards.py. Plain
numbers and identical texts are decided first, without algebra (exact.py).
"""

import logging
import re
from collections.abc import Sequence
from functools import lru_cache

from offleash.data.verdict import Verdict
from offleash.verifiers.math.exact import MAX_CHARACTERS, decide_exactly, exceeded_limit
from offleash.verifiers.math.guards import letters, reject_reason, unitless, value_of
from offleash.verifiers.math.latex import clean_latex, distinguish_capitals, gold_text, without_spaces
from offleash.verifiers.math.numeric import clearly_different
from offleash.verifiers.verifier import Case, Judgement

_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*(?:/\d+)?")
_PROSE = re.compile(r"(?:(?<![\\\w{])[A-Za-z]{2,}[,;]?\s+){3}[A-Za-z]{2,}")  # four words outside of any command
DECIMALS = 6  # decimals to which math-verify compares numbers that are not exact


def decide(case: Case) -> Judgement:
    """Whether the answer equals the gold one; plain numbers and identical texts first, then algebra."""
    if len(case.answer) > MAX_CHARACTERS:
        return Judgement(Verdict.FAILED, f"an answer of {len(case.answer):,} characters is too long for algebra")
    return decide_exactly(case) or decide_by_algebra(case)


def decide_by_algebra(case: Case) -> Judgement:
    """The slow half of `decide`, which the quick half must never contradict.

    The order: equal texts first, since they need no parser; limits before parsing, since parsing alone can take for
    ever; a numeric probe before SymPy, which spends its time on proving that different things differ; guards last,
    since they only ever turn "equal" into "wrong".
    """
    gold, answer = distinguish_capitals(clean_latex(gold_text(case.gold or "")), clean_latex(case.answer))
    if gold and without_spaces(gold) == without_spaces(answer):
        return Judgement(Verdict.CORRECT, solution=gold_text(case.gold or ""))
    for side_name, text in (("the answer", answer), ("the gold answer", gold)):
        limit_exceeded = exceeded_limit(text)
        if limit_exceeded:
            return Judgement(Verdict.FAILED, f"{side_name} is too complex for algebra: {limit_exceeded}")
    expected, parsed = read(gold), read(answer)
    if not expected:
        return Judgement(Verdict.FAILED, f"the gold answer {gold[:80]!r} cannot be parsed as mathematics")
    if not parsed:
        return Judgement(Verdict.WRONG, "it cannot be parsed as mathematics")
    complex_expected, complex_parsed = with_imaginary_unit(expected), with_imaginary_unit(parsed)
    if letters(gold) != letters(answer) and clearly_different(value_of(complex_expected), value_of(complex_parsed)):
        return Judgement(Verdict.WRONG)
    if not any_equal(expected, parsed):
        # `i` is a letter for the parser, and in most problems it is one: the imaginary unit is the second guess
        expected, parsed = complex_expected, complex_parsed
        if not any_equal(expected, parsed):
            return Judgement(Verdict.WRONG)
    rejection = reject_reason(gold, answer, expected, parsed)
    if rejection:
        return Judgement(Verdict.WRONG, rejection)
    return Judgement(Verdict.CORRECT, solution=gold_text(case.gold or ""))


def warm() -> None:
    """Load what the first decision needs: SymPy and the parser take a second to begin."""
    for gold, answer in (
        ("x+1", "1+x+y"),
        ("2\\sqrt{2}", "\\sqrt{8}"),
        ("\\frac{1}{2}", "\\sin x"),
        ("(1,2)", "[1,3]"),
    ):
        decide_by_algebra(Case(answer, gold))


def any_equal(expected: Sequence[object], parsed: Sequence[object]) -> bool:
    """What math-verify says; an inequality may answer an interval, not the other way round."""
    import sympy
    from math_verify import verify

    interval = any(isinstance(part, sympy.Interval | sympy.Union | sympy.Contains) for part in expected)
    return bool(
        verify(
            list(expected),
            list(parsed),
            float_rounding=DECIMALS,
            allow_set_relation_comp=interval,
            timeout_seconds=None,
        )
    )


def readable(case: Case) -> str:
    """Why the gold answer cannot be judged against; empty where it can."""
    if not (case.gold or "").strip():
        return "it has no gold answer"
    gold = clean_latex(gold_text(case.gold or ""))
    limit_exceeded = exceeded_limit(gold)
    if limit_exceeded:
        return f"its gold answer {gold[:80]!r} is too complex for algebra: {limit_exceeded}"
    parts = read(gold)
    unbalanced = all(isinstance(part, str) for part in parts) and gold.count("{") != gold.count("}")
    if not parts or unbalanced or (_PROSE.search(gold) and not re.search(r"[\d=\\]", gold)):
        return f"its gold answer {gold[:80]!r} cannot be parsed as mathematics; --verifier string compares words"
    return ""


@lru_cache(maxsize=512)
def read(text: str) -> tuple[object, ...]:
    """What math-verify makes of a formula: expressions and the text it read; empty where it reads nothing."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that we keep the time ourselves
    # its own removal of units would take the last letter of `3t` for one
    plain = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="all", equations=False)
    parts = parse(f"${unitless(text)}$", [LatexExtractionConfig(normalization_config=plain)], parsing_timeout=None)
    if all(isinstance(part, str) for part in parts) and len(_NUMBERS.findall(text)) == 1:
        parts = parse(text, [ExprExtractionConfig()], parsing_timeout=None) or parts  # a number among words
    return tuple(parts)


def with_imaginary_unit(parts: tuple[object, ...]) -> tuple[object, ...]:
    """The expressions with i as the imaginary unit: the parser takes it for a letter like others."""
    import sympy

    return tuple(
        part.xreplace({letter: sympy.I for letter in part.free_symbols if letter.name == "i"}).doit(deep=True)
        for part in parts
        if isinstance(part, sympy.Expr)
    )
