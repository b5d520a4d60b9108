"""What may reach a scorer that evaluates text: literals and formulas; everything else is named and refused."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.verifiers.reasoning_gym.guards import not_a_formula, not_a_literal

CODE = [
    "__import__('os').system('true')",
    "(1).__class__.__mro__",
    "lambda: 0",
    "[x for x in range(9)]",
    "{1: 2}",
    "f'{1}'",
    "open('x')",
    "x[0]",
    "x if x else x",
    "x < 1",
    "x or x",
    "not x",
    "(y := 1)",
    "*x",
    "x.y",
    "sin(x=1)",
    "sin(*x)",
    "sin",
    "Integral(x, x)",
    "integrate(x, x)",
    "expand((x+1)**2)",
    "factorial(x)",
    "x!",
    "x ^ 2",
    "1 << 99999999",
    "1j",
    "'a' * 9",
    "b'a'",
    "x\x00",
    "x # comment",
    "",
    "2x",
    "None",
    "True",
    "1e999",
]
BOMBS = [
    "9**9**9**9",
    "(((9**99)**99)**99)",
    "x**99999999",
    "(x+1)**(10**9)",
    "((x**200)**200)**200",
    "10**(10**10)",
    "9" * 5_000,
    "(" * 5_000 + "x" + ")" * 5_000,
    "-" * 7_000 + "x",
    "x+" * 3_900 + "x",
    "sin(" * 500 + "x" + ")" * 500,
    "x*" * 10_000_000,
]


@pytest.mark.parametrize("text", CODE)
def test_code_is_not_a_formula(text: str) -> None:
    assert not_a_formula(text, ["x"])


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: text[:20])
def test_a_bomb_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    assert not_a_formula(text, ["x"])
    assert not_a_literal(f"[{text}]", strings=True)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "text",
    [
        "x**3/3 + C",
        "-193600*y**8 - 239800*y**7 + 476784*y**6",
        "3*exp(-2*x)*sin(3*x)/13 + c".replace("c", "C"),
        "log(Abs(x + 1)) + sqrt(x)*atan(x/2) - x**0.5 + x**(1/2) + pi*E",
        "log(x, 10)",
        " x + 1\n",
        "2**100 * x",
        "+".join(["x**2*y"] * 300),
    ],
)
def test_a_formula_is_let_through(text: str) -> None:
    assert not_a_formula(text, ["x", "y"]) == ""


def test_names_are_those_of_the_problem() -> None:
    assert not_a_formula("x + y", ["x"]) == "the name 'y' is not part of a formula"
    assert not_a_formula("sin(x)", ["x"], functions=()) == "a call of 'sin' is not part of a formula"


@pytest.mark.parametrize(
    "text", ["[1, -2, 3.5]", "[['_', 'Q'], ['Q', '_']]", "((0, 1), (1, 0))", "[]", "[\n[1],\n[2]\n]"]
)
def test_a_literal_is_let_through(text: str) -> None:
    assert not_a_literal(text, strings=True) == ""


@pytest.mark.parametrize(
    "text", [*(f"[{code}]" for code in CODE if code not in ("", "True", "1e999")), "1", "'abc'", "abc", "1 2 3"]
)
def test_what_is_no_literal_is_refused(text: str) -> None:
    assert not_a_literal(text, strings=False)


def test_strings_are_refused_where_numbers_belong() -> None:
    assert not_a_literal("['a']", strings=True) == ""
    assert not_a_literal("['a']", strings=False) == "a list holds the str 'a', not only literals"


@given(st.text(max_size=100) | st.text("x0123456789+-*/() .,[]'", max_size=100))
def test_any_text_is_looked_at_without_an_error(text: str) -> None:
    assert isinstance(not_a_formula(text, ["x"]) + not_a_literal(text, strings=True), str)
