"""`program`: right programs pass, wrong ones do not, and no program passes without computing the answers."""

import base64
import json
import pickle
import zlib
from dataclasses import replace

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.program.decide import decide, readable, same_output
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement

PROMPT = (
    "from typing import List\nimport math\n\n\ndef double(x):\n    return 2 * x\n\n\n"
    'def total(numbers: List[int]) -> int:\n    """ Twice the sum.\n    >>> total([1])\n    2\n    """\n'
)
TEST = "def check(candidate):\n    assert candidate([1, 2]) == double(3)\n    assert candidate([]) == 0\n"
CHECK = {"kind": "check", "prompt": PROMPT, "test": TEST, "entry_point": "total"}
ASSERTS = {"kind": "asserts", "setup": "", "tests": ["assert add(1, 2) == 3", "assert add('a', 'b') == 'ab'"]}
STDIN = {"kind": "stdin", "tests": [{"input": "1 2\n", "output": "3\n"}, {"input": "5 5\n", "output": "10"}]}
CALL = {
    "kind": "call",
    "entry_point": "pair",
    "tests": [{"input": "[1, 2]\n3", "output": "[[1, 2], 3]"}, {"input": '[]\n"é"', "output": '[[], "é"]'}],
}
RIGHT = {
    "check": "    return double(sum(numbers))\n",
    "asserts": "def add(a, b):\n    return a + b\n",
    "stdin": "a, b = map(int, input().split())\nprint(a + b)\n",
    "call": "class Solution:\n    def pair(self, numbers: List[int], x):\n        return numbers, x\n",
}
DETAILS: dict[str, dict[str, object]] = {"check": CHECK, "asserts": ASSERTS, "stdin": STDIN, "call": CALL}  # type: ignore[dict-item]

pytestmark = pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)


LAUNCHER = run.Launcher()  # one for all tests: it ends with this process


def judged(details: dict[str, object], answer: str, gold: str | None = None) -> Judgement:
    run.POLICY.set(run.SandboxPolicy(launcher=LAUNCHER))
    return decide(Case(answer, gold, details=details))


def verdict(details: dict[str, object], answer: str, gold: str | None = None) -> Verdict:
    result = judged(details, answer, gold)
    assert result.verdict is Verdict.CORRECT or result.reason, "what is not correct has a reason"
    return result.verdict


@pytest.mark.parametrize("kind", DETAILS)
def test_a_right_program_is_correct(kind: str) -> None:
    assert judged(DETAILS[kind], RIGHT[kind]) == Judgement(Verdict.CORRECT)


@pytest.mark.parametrize(
    "answer",
    [
        "    return 2 * sum(numbers)",
        "return 2 * sum(numbers)",
        "\n    return double(sum(numbers))\n",
        "total_ = 0\nfor n in numbers:\n    total_ += 2 * n\nreturn total_",
        "total_ = 0\n    for n in numbers:\n        total_ += 2 * n\n    return total_",
        "    return 2 * sum(numbers)\n\n\nprint(total([1, 2]))\nassert total([2]) == 4",
        "def total(numbers: List[int]) -> int:\n    return double(math.fsum(numbers))",
        "from __future__ import annotations\n\ndef total(numbers):\n    return 2 * sum(numbers)",
        PROMPT + "    return double(sum(numbers))\n",
        "    def total(numbers):\n        return 2 * sum(numbers)",
        "total = lambda numbers: 2 * sum(numbers)",
        "import numpy as np\ndef total(numbers):\n    return np.int64(2) * sum(numbers)",
        "def helper(n):\n    return n + n\n\ndef total(numbers):\n    return sum(map(helper, numbers))",
    ],
)
def test_a_body_or_a_whole_function_completes_the_prompt(answer: str) -> None:
    assert verdict(DETAILS["check"], answer) is Verdict.CORRECT


@pytest.mark.parametrize(
    "answer",
    [
        "    return sum(numbers)",
        "    pass",
        "def other(numbers):\n    return 2 * sum(numbers)",
        "def total(numbers)\n    return 2",
        "The function is total(numbers).",
        "    raise ValueError",
        "def total():\n    return 0",
        "total = 3\n",
    ],
)
def test_a_wrong_function_is_wrong(answer: str) -> None:
    assert verdict(DETAILS["check"], answer) is Verdict.WRONG


@pytest.mark.parametrize(
    ("setup", "tests", "answer"),
    [
        ("", ["assert sum(10, 15) == 6"], "def sum(a, b):\n    return 6"),
        ("", ["assert math.isclose(root(2), 1.41421356, rel_tol=1e-6)"], "import math\ndef root(x): return x ** 0.5"),
        ("import math", ["assert math.floor(half(3)) == 1"], "def half(x): return x / 2"),
        (
            "",
            ["assert longest([Pair(5, 24), Pair(1, 2)]) == 2"],
            "class Pair:\n  def __init__(s, a, b): s.a = a\nlongest = len",
        ),
        (
            "root = Node(1)\nroot.left = Node(2)",
            ["assert depth(root) == 1"],
            "class Node:\n  def __init__(s, x): s.x = x\ndef depth(n): return n.x",
        ),
        ("", ["assert list(odd(5)) == [1, 3, 5]"], "def odd(n): return (x for x in range(n + 1) if x % 2)"),
        ("", ["assert set(common((1, 2), (2, 3))) == {2}"], "def common(a, b): return set(a) & set(b)"),
        ("", ["x = [3, 1]\nput_in_order(x)\nassert x == [1, 3]"], "def put_in_order(x): x.sort()"),
        (
            "",
            ["assert count('aab') == {'a': 2, 'b': 1}"],
            "from collections import Counter\ndef count(s): return Counter(s)",
        ),
        (
            "",
            ["assert point() == (1, 2)"],
            "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef point(): return P(1, 2)",
        ),
        (
            "",
            ["try:\n    f(-1)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'no'"],
            "def f(x):\n    raise ValueError('no')",
        ),
        ("", ["assert f(1, y=2) == 3"], "def f(x, y): return x + y"),
    ],
)
def test_assertions_of_many_kinds_are_run(setup: str, tests: list[str], answer: str) -> None:
    details: dict[str, object] = {"kind": "asserts", "setup": setup, "tests": tests}
    assert judged(details, answer, answer) == Judgement(Verdict.CORRECT)
    assert verdict(details, "def nothing(): pass", answer) is Verdict.WRONG


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("print(sum(map(int, input().split())))", Verdict.CORRECT),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())), end='')", Verdict.CORRECT),
        ("print(f' {float(sum(map(int, input().split())))}  \\n\\n')", Verdict.CORRECT),
        ("print(sum(map(int, input().split())))\nexit()", Verdict.CORRECT),
        ("if __name__ == '__main__':\n    print(sum(map(int, input().split())))", Verdict.CORRECT),
        (
            "from threading import *\nThread(target=lambda: print(sum(map(int, input().split())))).start()",
            Verdict.CORRECT,
        ),
        ("import os\nos.write(1, str(sum(map(int, os.read(0, 99).split()))).encode())", Verdict.CORRECT),
        ("print(gcd(0, sum(map(int, input().split()))))", Verdict.CORRECT),
        ("print(3)", Verdict.WRONG),
        ("print(sum(map(int, input().split())))\n1 / 0", Verdict.WRONG),
        ("print(sum(map(int, input().split())), 'is it')", Verdict.WRONG),
        ("print(input())\nprint(input())", Verdict.WRONG),
        ("open('x', 'w').write('3')", Verdict.WRONG),
    ],
)
def test_a_program_is_judged_by_what_it_prints(answer: str, expected: Verdict) -> None:
    assert verdict(DETAILS["stdin"], answer) is expected


def test_nothing_is_left_for_the_next_input() -> None:
    keeps = "import math\nprint(getattr(math, 'kept', 3))\nmath.kept = 4\n"
    assert verdict({"kind": "stdin", "tests": [{"input": "", "output": "3"}] * 3}, keeps) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("def pair(a, b):\n    return [a, b]", Verdict.CORRECT),
        ("class Solution:\n    def pair(self, a, b):\n        return (tuple(a), b)", Verdict.CORRECT),
        ("class Solution:\n    def pair(self, a, b):\n        print('noise')\n        return a, b", Verdict.CORRECT),
        ("class Solution:\n    def pair(self, a, b):\n        return {1}", Verdict.WRONG),
        ("class Solution:\n    def pare(self, a, b):\n        return a, b", Verdict.WRONG),
        ("class Solution:\n    def pair(self, a):\n        return a", Verdict.WRONG),
        ("class Solution:\n    def pair(self, a, b):\n        return [[1, 2], 3]", Verdict.WRONG),
        ("class Solution:\n    def pair(self, a, b):\n        a", Verdict.WRONG),
    ],
)
def test_a_function_is_judged_by_what_it_returns(answer: str, expected: Verdict) -> None:
    assert verdict(DETAILS["call"], answer) is expected


def test_a_program_continues_the_lines_it_was_given() -> None:
    partial = "class Solution:\n    def pair(self, a, b):\n        x = a\n"
    details = DETAILS["call"] | {"partial": partial}
    assert verdict(details, "        return x, b") is Verdict.CORRECT
    assert verdict(details, partial + "        return x, b") is Verdict.CORRECT
    assert verdict(details, "        return b, x") is Verdict.WRONG


def test_private_tests_count_as_well() -> None:
    hidden = json.dumps([{"input": "7 7", "output": "14", "testtype": "stdin"}])
    private = base64.b64encode(zlib.compress(pickle.dumps(hidden))).decode()
    details = DETAILS["stdin"] | {"private": private}
    assert verdict(details, RIGHT["stdin"]) is Verdict.CORRECT
    assert verdict(details, "print({'1 2': 3, '5 5': 10}[input()])") is Verdict.WRONG
    assert "private tests" in readable(Case("", details=DETAILS["stdin"] | {"private": "nonsense"}))


def test_limits_of_time_memory_and_output_make_a_program_wrong() -> None:
    verifier = replace(VERIFIERS["program"], seconds=1.0, memory=1 << 29)
    answers = {
        "while True: pass": "time limit of 1 s",
        "x = bytearray(1 << 30)": "MemoryError",
        "while True: print('y' * 1000)": "printed far more",
        "def f(": "syntax error",
        "  \n": "no code",
    }
    with Pool(2) as pool:
        actual = dict(pool.judge(verifier, [Case(answer, details=DETAILS["stdin"]) for answer in answers]))
    for index, reason in enumerate(answers.values()):
        assert actual[index].verdict is Verdict.WRONG
        assert reason in actual[index].reason


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({}, "kind"),
        ({"kind": "riddle"}, "'riddle'"),
        ({"kind": "check", "prompt": "", "test": "x"}, "entry_point"),
        ({"kind": "check", "prompt": "", "test": "x", "entry_point": "f"}, "does not define check"),
        ({"kind": "asserts", "tests": []}, "no tests"),
        ({"kind": "asserts", "tests": [3]}, "not text"),
        ({"kind": "stdin", "tests": [{"input": "1"}]}, "test 1"),
        ({"kind": "call", "entry_point": "f", "tests": [{"input": "x", "output": "1"}]}, "not JSON"),
    ],
)
def test_tests_that_cannot_be_used_are_reported_and_fail(details: dict[str, object], words: str) -> None:
    assert words in readable(Case("", details=details))
    assert judged(details, "x = 1").verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("1.0 2", "1 2.00", True),
        ("1  2", "1 2", True),
        ("a  b", "a b", False),
        ("0.333", "0.33", False),
        ("1\n\n2", "1\n2", False),
        ("yes", "YES", False),
        ("nan", "nan", True),
        ("1e400", "1", False),
        ("", "", True),
    ],
)
def test_outputs_are_compared_by_livecodebenchs_rules(printed: str, expected: str, same: bool) -> None:
    assert same_output(printed, expected) is same
