"""The fingerprint `program` on programs of several parts: examples, scripts that read input, and imported names."""

import pytest

from offleash.analyses.strategies.fingerprints import program
from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem

SUMS = "def f(n):\n    return n * (n + 1) // 2\n"
KINDS = "class S:\n    def go(self, a):\n        return max(a)\n"
READ = "def read():\n    return int(input())\n"
DATA = "def data():\n    return list(map(int, {}))\n"


def told(source: str) -> str:
    way = program.strategy(SolvedProblem(), f"```python\n{source}\n```")
    assert way is not None
    return way.replace("\n\n", "\n").strip()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (READ + "n = read()\nprint(n * (n + 1) // 2)", READ + "n = read()\nprint(sum(range(n + 1)))"),
        (DATA.format("input()") + "r = data()\nr.sort()", DATA.format("input()") + "r = data()\nr.reverse()"),
        (DATA.format("open(0)") + "print(max(data()))", DATA.format("open(0)") + "print(sorted(data())[-1])"),
        (DATA.format("'312'") + "print(max(data()))", DATA.format("'312'") + "print(sorted(data())[-1])"),
        (SUMS + "print(f(3) * 2)", SUMS + "print(f(3) + 6)"),
        (SUMS + "n = 3\nprint(f(n))", SUMS + "n = 3\nprint(f(n + 1))"),
        (SUMS + "print(6)", SUMS),  # a result that no function gave
    ],
)
def test_statements_that_do_more_than_show_a_function_stay(first: str, second: str) -> None:
    assert told(first) != told(second)


@pytest.mark.parametrize(
    "example",
    [
        "f(3)",
        "f(n=3)",
        "print(f(3))",
        "print(f(-3), f(10**9), sep=', ')",
        'print("f(3) =", f(3))',
        'print(f"f(3) = {f(3):>5}")',
        "print(f(3) == 6)",
        "assert f(3) == 6",
        "assert f(3) == 6, 'wrong'\nprint('All tests passed')",
        "assert abs(f(3) - 6) < 1e-9",
        "if __name__ == '__main__':\n    print('Examples')\n    print(f(3))",
    ],
)
def test_what_only_shows_a_function_on_constants_is_left_out(example: str) -> None:
    assert told(SUMS + example) == told(SUMS)


def test_methods_of_own_classes_are_shown_and_what_others_make_of_a_result_is_not_left_out() -> None:
    assert told(KINDS + "print(S().go([1, 2]))") == told(KINDS)
    assert told(SUMS + "print(f(3).bit_length())") != told(SUMS)


@pytest.mark.parametrize(
    ("imports", "read"),
    [
        ("", "input()"),
        ("", "list(iter(input, ''))"),
        ("", "open('numbers').read()"),
        ("import sys\n", "sys.stdin.read()"),
        ("import sys as s\n", "s.argv[1]"),
        ("from sys import stdin as given\n", "given.readline()"),
        ("from sys import argv\n", "argv[1]"),
    ],
)
def test_a_program_that_reads_input_keeps_every_statement(imports: str, read: str) -> None:
    both = f"{imports}def up(k):\n    return sorted({read})[k]\ndef down(k):\n    return max({read}, key=k)\n"
    assert told(both + "print(up(0))") != told(both + "print(down(0))") != told(both)


def test_names_that_are_only_called_like_a_reader_read_nothing() -> None:
    assert told("def f(input):\n    return input * 2\nprint(f(4))") == told("def g(x):\n    return x * 2")
    assert told("def f(a):\n    open = a[0]\n    return open\nf([1])") == told("def f(a):\n    b = a[0]\n    return b")
    shadowed = "input = input().split()\ndef f(k):\n    return input[k]\n"
    assert told(shadowed + "print(f(0))") != told(shadowed + "print(f(1))")  # here the builtin is read first


@pytest.mark.parametrize("body", ["n = int(input())\n    print(n * n)", "print(sum(range(9)))"])
def test_a_main_function_is_one_way_however_it_is_called_up(body: str) -> None:
    plain, run_guarded = (
        f"def main():\n    {body}\nmain()",
        f"def run():\n    {body}\nif __name__ == '__main__':\n    run()",
    )
    assert told(plain) == told(run_guarded)
    assert told(plain) != told(plain.replace("(n * n)", "(n ** 2)").replace("sum(range(9))", "36"))


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("from math import gcd\ndef f(gcd, b):\n    return gcd + b", "def v0(v1, v2):\n    return v1 + v2"),
        ("from math import gcd\ndef f(a, b):\n    return gcd(a, b)", "def v0(v1, v2):\n    return math.gcd(v1, v2)"),
        ("from math import e\nx = [e for e in a]\ny = e", "v1 = [v0 for v0 in a]\nv2 = math.e"),
        ("from math import e\nf = lambda e: e", "v1 = lambda v0: v0"),
        ("from queue import Queue\nqueue = Queue()", "v0 = queue.Queue()"),  # the variable is not the module
        ("import queue\nqueue = queue.Queue()\nqueue.get()", "v0 = queue.Queue()\nv0.get()"),
        ("from time import time\ntime = time()\nx = time", "v0 = time.time()\nv1 = v0"),
        ("time = 3\nfrom time import time\nx = time()", "v0 = 3\nv1 = time.time()"),
        ("def g():\n    from math import e\n    return e\ne = 2", "def v0():\n    return math.e\nv1 = 2"),
        ("import numpy as np\ndef f(a):\n    return np.sum(a)", "def v0(v1):\n    return numpy.sum(v1)"),
        ("import os.path as p\nx = p.sep", "v0 = os.path.sep"),
        (  # what a class binds is not seen in its methods
            "class A:\n    from math import e\n    x = e\n    def f(s):\n        return e",
            "class v0:\n    x = math.e\n    def v1(v2):\n        return e",
        ),
    ],
)
def test_an_imported_name_is_resolved_only_where_the_import_binds_it(source: str, way: str) -> None:
    assert told(source) == way


def test_an_own_method_with_the_name_of_an_import_is_one_way_however_it_is_imported() -> None:
    body = "class S:\n    def gcd(self, a):\n        return self.go({}(a, 2))\n    def go(self, a):\n        return a\n"
    assert told("import math\n" + body.format("math.gcd")) == told("from math import gcd\n" + body.format("gcd"))
