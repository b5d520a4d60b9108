"""Fingerprints: what they merge, what they keep apart, and how they take hostile text."""

import json
import time

import pytest

from offleash.analyses.strategies.fingerprints import countdown, program, steps
from offleash.analyses.strategies.fingerprints.fingerprint import LONGEST, SolvedProblem, short
from offleash.analyses.strategies.fingerprints.registry import FINGERPRINTS, fingerprint
from offleash.errors import OffleashError
from offleash.verifiers.registry import VERIFIERS
from tests.analyses.strategies.error_rates import PLANTED
from tests.places import SHARED_DATA

REAL = SHARED_DATA / "outputs"
NUMBERS = SolvedProblem("p", details={"numbers": [3, 5, 2], "target": 16})


@pytest.mark.parametrize("name", list(PLANTED))
def test_planted_pairs_come_from_their_seed_alone_and_are_dozens_of_each_kind(name: str) -> None:
    one, again, other = PLANTED[name](0), PLANTED[name](0), PLANTED[name](1)
    assert one == again
    assert one != other
    assert min(sum(pair.same for pair in one), sum(not pair.same for pair in one)) >= 36
    assert all(pair.first != pair.second or not pair.same for pair in one)


def test_every_fingerprint_has_planted_pairs_and_its_key_is_its_name() -> None:
    assert set(FINGERPRINTS) == set(PLANTED)
    assert all(name == one.name for name, one in FINGERPRINTS.items())


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("5*3=15", "3*5"),
        (r"\[ 3 \times 5 = 15 \]", "3*5"),
        ("3 boxes x 5 pens = 15 pens", "3*5"),
        ("$1,000 + $500 = $1,500", "1000+500"),
        ("16 - 3 = <<16-3=13>>13. 13 * 2 = <<13*2=26>>26", "(16-3)*2"),
        ("20% of 50 is 10", "50/5"),
        (r"\frac{2}{4} \cdot 10 = 5", "10/2"),
        ("(3+5)*2 = 8*2 = 16", "(3+5)*2"),
        ("x = 10 - 3 = 7", "10-3"),
        ("3(4 + 5) = 27", "(4+5)*3"),
        ("5² = 25", "5*5"),
        ("3 + 4 = 7\n3 + 4 = 7", "3+4"),
        ("1 * 36 = 36 and 36 - 6 = 30", "36-6"),
        ("The answer is 7.", None),
        ("2 + 2 = 5", None),  # coverage_caution or wrong: not a step
        ("5 / 0 = 3", None),
    ],
)
def test_steps_are_read_whatever_their_notation(text: str, way: str | None) -> None:
    assert steps.strategy(SolvedProblem(), text) == way


def test_of_several_results_the_one_that_is_the_answer_is_the_way() -> None:
    text = "2 * 3 = 6 is not needed. 4 + 5 = 9."
    assert steps.strategy(SolvedProblem(gold="9"), text) == "4+5"
    assert steps.strategy(SolvedProblem(gold=None), text) == "2*3; 4+5"


def test_a_number_of_the_question_quotes_a_result_once() -> None:
    text = "4 / 2 = 2 left. 2 * 9 = 18. 2 * 18 = 36."
    assert steps.strategy(SolvedProblem(question="4 and 2 and 9", gold="36"), text) == "2*4*9/2"
    assert steps.strategy(SolvedProblem(question="4 and 9", gold="36"), text) == "4*4*9/2/2"


def test_the_countdown_way_is_the_verifiers_solution() -> None:
    assert (
        countdown.strategy(NUMBERS, "3+5=8, 8*2=16")
        == countdown.strategy(NUMBERS, "<answer>2*(5+3)</answer>")
        == "(3+5)*2"
    )
    assert countdown.strategy(NUMBERS, "3*5=15") is None
    assert countdown.strategy(SolvedProblem(), "2*(5+3)") == "(3+5)*2"  # nothing is known of the problem
    assert VERIFIERS["countdown"].revision == FINGERPRINTS["countdown"].revision


def test_programs_differ_by_their_trees_and_not_by_their_names() -> None:
    one = "```python\ndef f(a: int) -> int:\n    '''Doc.'''\n    b = a  # note\n    b += 2\n    return b\n```"
    same = "```python\ndef g(x):\n    y = x\n    y = y + 2\n    return (y)\n\nprint(g(3))\n```"
    other = one.replace("+= 2", "+= 3")
    assert program.strategy(SolvedProblem(), one) == program.strategy(SolvedProblem(), same)
    assert program.strategy(SolvedProblem(), one) != program.strategy(SolvedProblem(), other)
    assert program.strategy(SolvedProblem(), "def f(:") is None
    assert program.strategy(SolvedProblem(), "just words") is None
    assert program.strategy(SolvedProblem(), "    return a + 1") is not None  # the body of a function that was begun


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("count = a.count(x)", "v0 = a.count(x)"),  # a method is not the variable of its name
        ("sum = sum(a)\nprint(sum)", "v0 = sum(a)\nprint(v0)"),  # the builtin until it is shadowed
        ("def f(a):\n    max = a[0]\n    return max", "def v0(v1):\n    v2 = v1[0]\n    return v2"),
        ("def g(x):\n    min = x\nb = min(g)", "def v0(v1):\n    v2 = v1\nv3 = min(v0)"),  # another scope
        ("def f(k):\n    return k\ny = f(k=1)", "def v0(v1):\n    return v1\nv2 = v0(v1=1)"),
        ("y = sorted(a, key=b)", "v0 = sorted(a, key=b)"),  # keywords of others stay
        ("y = [x for x in x]", "v1 = [v0 for v0 in x]"),  # its first list is read outside
        ("def f():\n    global n\n    n = 1", "def v0():\n    global v1\n    v1 = 1"),
        ("y = [z for z in a if (w := z)]\nu = w", "v2 = [v0 for v0 in a if (v1 := v0)]\nv3 = v1"),
    ],
)
def test_names_of_a_program_stand_for_what_their_scope_binds(source: str, way: str) -> None:
    found = program.strategy(SolvedProblem(), f"```python\n{source}\n```")
    assert found is not None
    assert found.replace("\n\n", "\n").strip() == way


def test_attributes_are_renamed_only_where_they_are_surely_the_programs_own() -> None:
    def told(*lines: str) -> str | None:
        return program.strategy(SolvedProblem(), f"```python\nclass A{lines[0]}:\n" + "\n".join(lines[1:]) + "\n```")

    own = ("    def __init__(me):", "        me.low, me.high = 0, 1", "    def get(me):", "        return me.low")
    renamed = tuple(line.replace("me", "self").replace("low", "a").replace("high", "b") for line in own)
    assert told("", *own) == told("", *renamed)
    assert told("", *own) != told("", *own[:3], "        return me.high")
    assert told("(Base)", *own) != told("(Base)", *renamed)  # Base may ask for them by name
    assert told("", *own, "x = A().low") != told("", *renamed, "x = A().low")


def test_a_long_way_is_cut_and_still_told_apart() -> None:
    one, other = "x" * 1000 + "a", "x" * 1000 + "b"
    assert len(short(one)) == LONGEST
    assert short(one) != short(other)


@pytest.mark.parametrize(
    "text",
    [
        "1+1=" * 20_000,
        "(" * 20_000 + "=" + ")" * 20_000,
        r"\frac{" * 5_000,
        "1 + " * 20_000 + "1 = 3",
        "= " * 30_000,
        "9^9^9^9 = 1",
        "2 + 2 = 4 " + "a b c d " * 10_000 + "= 4",
        "1=2\n" * 20_000,
        "1" + " " * 50_000 + "\n" * 50_000 + "=",
        "\\text{" * 10_000 + "<<" * 10_000,
        "9" * 50_000 + " + 1 = 2",
    ],
    ids=["chain", "brackets", "fractions", "sum", "equals", "powers", "words", "lines", "space", "open", "digits"],
)
def test_hostile_texts_cost_little_more_than_honest_ones(text: str) -> None:
    started = time.process_time()
    steps.strategy(SolvedProblem(), text)
    assert time.process_time() - started < 5


def test_results_that_double_do_not_grow_without_bound() -> None:
    value, lines = 3, []
    for _ in range(200):
        lines.append(f"{value} + {value} = {2 * value}")
        value *= 2
    found = steps.strategy(SolvedProblem(), "\n".join(lines[:60]))
    assert found is not None
    assert len(found) <= 10 * LONGEST


def test_names_are_checked_with_the_nearest_one() -> None:
    with pytest.raises(OffleashError, match="Did you mean 'steps'"):
        fingerprint("step")
    with pytest.raises(OffleashError, match=r"FILE\.py:NAME"):
        fingerprint("file.py:")
    assert fingerprint("file.py:way").function == "file.py:way"


@pytest.mark.parametrize(
    ("name", "least"), [("openai_gsm8k.4models.jsonl", 0.99), ("qwen25math.math100x8.jsonl", 0.88)]
)
def test_most_correct_answers_of_real_models_are_read(name: str, least: float) -> None:
    file = REAL / name
    if not file.is_file():
        pytest.skip("other people's outputs are not part of the project")
    rows = [row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if row["file_correct"]][::3]
    told = [
        steps.strategy(SolvedProblem(row["problem_id"], row["problem"], row["gold"]), row["completion"]) for row in rows
    ]
    assert sum(way is not None for way in told) >= least * len(rows)
