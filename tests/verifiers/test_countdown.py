"""Countdown: every step is checked, in exact fractions, and the same way of solving has one form."""

import ast
import random
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.verifiers.countdown import decide, readable
from offleash.verifiers.verifier import Case

Written = tuple[str, Fraction, list[int]]  # an expression, its value and its numbers


def judged(answer: str, numbers: list[int], target: int, **rules: bool) -> Verdict:
    return decide(Case(answer, details={"numbers": numbers, "target": target, **rules})).verdict


def solution(answer: str, numbers: list[int], target: int) -> str:
    actual = decide(Case(answer, details={"numbers": numbers, "target": target})).solution
    assert actual is not None
    return actual


@st.composite
def expressions(draw: st.DrawFn, deep: int = 4) -> Written | None:
    """An expression with its value by fractions, built apart from the verifier; None when it divides by zero."""
    if not deep or draw(st.booleans()):
        number = draw(st.integers(1, 12))
        return str(number), Fraction(number), [number]
    left, right = draw(expressions(deep - 1)), draw(expressions(deep - 1))
    sign = draw(st.sampled_from("+-*/"))
    if left is None or right is None or (sign == "/" and right[1] == 0):
        return None
    value = {"+": left[1] + right[1], "-": left[1] - right[1], "*": left[1] * right[1]}.get(sign)
    return f"({left[0]}{sign}{right[0]})", left[1] / right[1] if value is None else value, left[2] + right[2]


@given(expressions(), st.integers(-3, 3))
def test_an_expression_is_right_exactly_when_its_value_is_the_target(written: Written | None, off: int) -> None:
    if written is None or (written[1] + off).denominator != 1:
        return
    target = int(written[1] + off)
    expected = Verdict.CORRECT if off == 0 else Verdict.WRONG
    assert judged(written[0], written[2], target, all=True) is expected
    assert judged(written[0], [*written[2], 1], target) is expected
    assert judged(written[0], [*written[2], 1], target, all=True) is Verdict.WRONG
    assert judged(written[0], [*written[2][1:], 99], target) is Verdict.WRONG


def shuffled(text: str, rng: random.Random) -> str:
    """The same way in another order and grouping: the operands of + and * swapped at random."""

    def written(node: ast.expr) -> str:
        if not isinstance(node, ast.BinOp):
            return ast.unparse(node)
        left, right = written(node.left), written(node.right)
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
        if sign in "+*" and rng.random() < 0.5:
            left, right = right, left
        return f"({left}{sign}{right})"

    return written(ast.parse(text, mode="eval").body)


@given(expressions(), st.integers(0, 99))
def test_commuted_forms_share_their_solution(written: Written | None, seed: int) -> None:
    if written is None or written[1].denominator != 1:
        return
    other = shuffled(written[0], random.Random(seed))
    assert solution(other, written[2], int(written[1])) == solution(written[0], written[2], int(written[1]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(2+3)+4", "2+(3+4)"),
        ("9-3-2", "9-(3+2)"),
        ("9-(3-2)", "9-3+2"),
        ("(2*3)*4", "2*(3*4)"),
        ("8/2/2", "8/(2*2)"),
        ("8/(2/4)", "8*4/2"),
        ("-2+9", "9-2"),
        ("3+5=8, 8*2=16", "2*(5+3)"),
    ],
)
def test_regrouped_forms_share_their_solution(one: str, other: str) -> None:
    value, numbers = int(eval(one.split(",")[-1].split("=")[-1])), [2, 2, 3, 4, 5, 8, 9]
    assert solution(one, numbers, value) == solution(other, numbers, value)


def test_different_expressions_have_different_solutions() -> None:
    expressions = ["2*6+4", "4*6-8", "2*8", "(2+6)*(8-6)", "8+6+2", "8+4+4", "4*(8-4)", "4*4", "(6-4)*8", "(6-2)*4"]
    assert len({solution(expression, [2, 4, 4, 6, 6, 8], 16) for expression in expressions}) == len(expressions)


@pytest.mark.parametrize(
    "answer",
    [
        "(3+5)*2",
        "(3+5)*2 = 16",
        "(3+5)*2 = 8*2 = 16",
        "3+5=8, 8*2=16",
        "3 + 5 = 8\n8 * 2 = 16",
        "3+5=8; 2×8=16.",
        r"$(3+5) \times 2$",
        r"\left(3+5\right)\cdot 2",
        "[3+5]×2",
        "2·(5+3)",
        "```\n(3+5)*2\n```",
    ],
)
def test_forms_of_one_answer(answer: str) -> None:
    assert judged(answer, [3, 5, 2], 16, all=True) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("answer", "numbers", "target"),
    [
        ("3-5=-2, -2+9=7", [3, 5, 9], 7),  # a negative result is quoted with its sign
        ("5/2=2.5, 2.5*4=10", [5, 2, 4], 10),
        (r"\frac{8}{3-1}", [8, 3, 1], 4),
        ("8÷(3−1)", [8, 3, 1], 4),
        ("1+2=3, 3*5=15, 15+3=18", [1, 2, 3, 5], 18),  # a result and a given number of the same value
        ("2+2=4, 3*5=15", [2, 2, 3, 5], 15),  # a step that is not needed uses up its numbers, no more
    ],
)
def test_steps_use_results_and_numbers_once(answer: str, numbers: list[int], target: int) -> None:
    assert judged(answer, numbers, target) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "no expression"),
        ("16", "16 is not among the numbers"),
        ("(3+5)*3", "3 is used more times"),
        ("3+5", "it evaluates to 8, not 16"),
        ("3+5=9, 9*2=16", "8 is claimed to be 9"),
        ("3+5=8, 8+8=16", "8 is used more times|8 is not among"),
        ("3+5=8, 8*2", "does not state one result"),
        ("(3+5)*2=15", "16 is claimed to be 15"),
        ("(3+5)^2", "not arithmetic"),
        ("(3+5)**2", "a number is missing"),
        ("(3+5)2", "missing operator"),
        ("(3+5)*2)", "unmatched closing"),
        ("((3+5)*2", "unclosed"),
        ("(5-5)/(3-3)", "more times"),
        ("__import__('os').system('true')", "not arithmetic"),
        ("(3+5)*2 or 7", "not arithmetic"),
        ("９+7", "not arithmetic"),
        ("9" * 10_000, "characters"),
        ("(" * 3_000 + "3", "too many brackets"),
        ("-" * 4_000 + "3", "too many signs"),
        ("3" * 100 + "+5", "digits"),
    ],
)
def test_a_wrong_answer_says_why(answer: str, why: str) -> None:
    result = decide(Case(answer, details={"numbers": [3, 5, 2], "target": 16}))
    assert result.verdict is Verdict.WRONG
    assert re.search(why, result.reason), result.reason


def test_division_by_zero_is_wrong() -> None:
    result = decide(Case("7/(3-3)", details={"numbers": [7, 3, 3], "target": 7}))
    assert (result.verdict, result.reason) == (Verdict.WRONG, "it divides by zero")


def test_fractions_on_the_way_are_refused_where_only_integers_are_allowed() -> None:
    assert judged("7/2*4", [7, 2, 4], 14) is Verdict.CORRECT
    assert judged("7/2*4", [7, 2, 4], 14, integers=True) is Verdict.WRONG
    assert judged("7*4/2", [7, 2, 4], 14, integers=True) is Verdict.CORRECT


@given(st.text(max_size=200), st.lists(st.integers(-50, 50), min_size=1, max_size=6))
def test_any_text_gets_a_verdict(answer: str, numbers: list[int]) -> None:
    assert judged(answer, numbers, 24) in (Verdict.CORRECT, Verdict.WRONG)


@pytest.mark.parametrize(
    ("details", "why"),
    [
        ({}, "numbers"),
        ({"numbers": [1, "2"], "target": 3}, "list of integers"),
        ({"numbers": [1, 2]}, "target"),
        ({"numbers": [1, 2], "target": 2.5}, "target"),
        ({"numbers": [1, 2], "target": 3, "all": "yes"}, "true or false"),
        ({"numbers": list(range(500)), "target": 3}, "up to 100"),
    ],
)
def test_details_that_cannot_be_used_are_named(details: dict[str, object], why: str) -> None:
    assert why in readable(Case("", details=details))
    assert decide(Case("1+2", details=details)).verdict is Verdict.FAILED


def test_details_that_can_be_used_are_not() -> None:
    assert readable(Case("", details={"numbers": [1, 2], "target": 3, "all": True, "integers": False})) == ""
