# ruff: noqa: E501  (programs read better unbroken)
"""Problems in the styles of MBPP, HumanEval and EvalPlus, written for these tests: each with a right and wrong programs.

Plain data, nothing runs here. The variety is that of the benchmarks: what the tests compare, how, and what the
reference program defines beside the function.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Styled:
    """A problem by assertions: its tests, its reference program, and programs that are wrong."""

    tests: list[str]
    gold: str
    wrong: list[str]
    setup: str = ""


NODE = "class Node:\n    def __init__(self, data):\n        self.data = data\n        self.left = None\n        self.right = None\n"
ASSERTS: dict[str, Styled] = {
    "a name that the tests bind in a function, too": Styled(
        ["def apply(double, x): return double(x)\nassert apply(double, 2) == 4 and [double for double in [1]] == [1]"],
        "def double(x): return 2 * x",
        ["def double(x): return x"],
    ),
    "in place by keyword": Styled(
        ["x = [2, 1]\norder(values=x)\nassert x == [1, 2]"],
        "def order(values): values.sort()",
        ["def order(values): return sorted(values)"],
    ),
    "in place by a method": Styled(
        [
            "x = [2, 1]\nSolution().order(x)\nassert x == [1, 2]",
            "y = []\ny.append(Solution().count([1]))\nassert y == [1]",
        ],
        "class Solution:\n    def order(self, x): x.sort()\n    def count(self, x): return len(x)",
        ["class Solution:\n    def order(self, x): sorted(x)\n    def count(self, x): return len(x)"],
    ),
    "a function as the result": Styled(
        ["assert adder(1)(2) == 3"],
        "def adder(x): return lambda y: x + y",
        ["def adder(x): return lambda y: x", "def adder(x): return x"],
    ),
    "an object of a class that the tests do not name": Styled(
        ["assert made(3).data == 3"],
        NODE + "def made(x): return Node(x)",
        [NODE + "def made(x): return Node(0)", "def made(x): return x"],
    ),
    "one function of the program's after another": Styled(
        ["assert to_list(flipped(from_list([1, 2, 3]))) == [3, 2, 1]", "assert is_full(Node(1)) == False"],
        NODE
        + "def from_list(x): return tuple(x)\ndef flipped(x): return x[::-1]\ndef to_list(x): return list(x)\ndef is_full(x): return False",
        [NODE + "from_list = flipped = to_list = list\ndef is_full(x): return False"],
    ),
    "a counter and an ordered dict": Styled(
        [
            "from collections import OrderedDict\nassert tally('aab').most_common(1) == [('a', 2)]\nassert tally('ab') == {'a': 1, 'b': 1}\nassert ordered('ba') == OrderedDict([('b', 1), ('a', 1)])"
        ],
        "from collections import Counter, OrderedDict\ndef tally(x): return Counter(x)\ndef ordered(x): return OrderedDict.fromkeys(x, 1)",
        [
            "from collections import Counter, OrderedDict\ndef tally(x): return Counter(x)\ndef ordered(x): return OrderedDict.fromkeys(sorted(x), 1)"
        ],
    ),
    "a set": Styled(
        ["assert common([1, 2, 3], [2, 3, 4]) == {2, 3}", "assert common([], [1]) == set()"],
        "def common(a, b): return set(a) & set(b)",
        ["def common(a, b): return set(a)", "def common(a, b): return list(set(a) & set(b))"],
    ),
    "a set of the result": Styled(
        ["assert set(common((3, 4, 5, 6), (5, 7, 4, 10))) == set((4, 5))"],
        "def common(a, b): return tuple(set(a) & set(b))",
        ["def common(a, b): return a"],
    ),
    "a set of frozen sets": Styled(
        ["assert pairs([1, 2, 3]) == {frozenset({1, 2}), frozenset({1, 3}), frozenset({2, 3})}"],
        "from itertools import combinations\ndef pairs(x): return {frozenset(p) for p in combinations(x, 2)}",
        ["from itertools import combinations\ndef pairs(x): return set(combinations(x, 2))"],
    ),
    "a float within a tolerance": Styled(
        ["assert abs(area(2) - 12.566370614) < 1e-6", "assert round(area(1), 2) == 3.14"],
        "import math\ndef area(r): return math.pi * r ** 2",
        [
            "def area(r): return 3.2 * r ** 2",
            "def area(r): return float('nan')",
            "def area(r): return str(3.14 * r * r)",
        ],
    ),
    "math.isclose without an import": Styled(
        ["assert math.isclose(root(2), 1.41421356, rel_tol=1e-6)"],
        "import math\ndef root(x): return math.sqrt(x)",
        ["import math\nmath.isclose = lambda *a, **k: True\ndef root(x): return x"],
    ),
    "isclose imported by the reference": Styled(
        ["assert isclose(root(2), 1.41421356, rel_tol=1e-6)"],
        "from math import isclose, sqrt\ndef root(x): return sqrt(x)",
        ["def isclose(*a, **k): return True\ndef root(x): return x"],
    ),
    "numpy.allclose": Styled(
        ["assert np.allclose(scaled([1, 2, 4]), [0.25, 0.5, 1.0])"],
        "def scaled(x): return [v / max(x) for v in x]",
        ["def scaled(x): return x", "import numpy as np\nnp.allclose = lambda *a: True\ndef scaled(x): return x"],
        setup="import numpy as np",
    ),
    "a NumPy array": Styled(
        [
            "assert doubled([1, 2]).tolist() == [2, 4] if hasattr(doubled([1, 2]), 'tolist') else doubled([1, 2]) == [2, 4]"
        ],
        "import numpy as np\ndef doubled(x): return np.array(x) * 2",
        ["import numpy as np\ndef doubled(x): return np.array(x)"],
    ),
    "a dict of lists": Styled(
        ["assert grouped(['ab', 'c', 'de']) == {2: ['ab', 'de'], 1: ['c']}"],
        "from collections import defaultdict\ndef grouped(x):\n    d = defaultdict(list)\n    for w in x: d[len(w)].append(w)\n    return d",
        ["def grouped(x): return {len(w): [w] for w in x}"],
    ),
    "a dict with tuples as keys": Styled(
        ["assert counted([(1, 2), (2, 1), (1, 2)]) == {(1, 2): 2, (2, 1): 1}"],
        "def counted(x): return {p: x.count(p) for p in x}",
        ["def counted(x): return {p: 1 for p in x}", "def counted(x): return {str(p): x.count(p) for p in x}"],
    ),
    "a Counter": Styled(
        ["assert Counter(letters('abca')) == Counter({'a': 2, 'b': 1, 'c': 1})", "assert letters('aa') == {'a': 2}"],
        "from collections import Counter\ndef letters(s): return Counter(s)",
        ["def Counter(*a): return 1\ndef letters(s): return {'a': 2}", "def letters(s): return set(s)"],
    ),
    "an ordered dict": Styled(
        ["assert list(ordered({'b': 1, 'a': 2}).items()) == [('a', 2), ('b', 1)]"],
        "from collections import OrderedDict\ndef ordered(d): return OrderedDict(sorted(d.items()))",
        ["def ordered(d): return d"],
    ),
    "a deque": Styled(
        ["assert rotated([1, 2, 3], 1) == deque([3, 1, 2])"],
        "from collections import deque\ndef rotated(x, n):\n    d = deque(x)\n    d.rotate(n)\n    return d",
        ["from collections import deque\ndef rotated(x, n): return deque(x)"],
    ),
    "a generator": Styled(
        ["assert list(odds(7)) == [1, 3, 5, 7]", "assert next(odds(3)) == 1", "assert sum(odds(5)) == 9"],
        "def odds(n):\n    for x in range(1, n + 1, 2): yield x",
        ["def odds(n):\n    for x in range(1, n, 2): yield x", "def odds(n): raise StopIteration"],
    ),
    "map, zip and a range": Styled(
        [
            "assert list(squares([1, 2])) == [1, 4]",
            "assert list(pairs([1], [2])) == [(1, 2)]",
            "assert list(upto(3)) == [0, 1, 2]",
        ],
        "def squares(x): return map(lambda v: v * v, x)\ndef pairs(a, b): return zip(a, b)\ndef upto(n): return range(n)",
        ["def squares(x): return map(abs, x)\ndef pairs(a, b): return zip(a, b)\ndef upto(n): return range(n)"],
    ),
    "nested lists": Styled(
        ["assert transposed([[1, 2], [3, 4], [5, 6]]) == [[1, 3, 5], [2, 4, 6]]"],
        "def transposed(m): return [list(r) for r in zip(*m)]",
        ["def transposed(m): return list(zip(*m))", "def transposed(m): return m"],
    ),
    "tuples in lists, with None": Styled(
        [
            "assert kept([(None, 2), (None, None), (3, 4)]) == [(None, 2), (3, 4)]",
            "assert str(kept([(None,)])) == '[]'",
        ],
        "def kept(x): return [t for t in x if any(v is not None for v in t)]",
        [
            "def kept(x): return [t for t in x if None not in t]",
            "def kept(x): return [list(t) for t in x if any(v is not None for v in t)]",
        ],
    ),
    "truth": Styled(
        ["assert even(4)", "assert not even(3)", "assert even(0) is True", "assert even(1) == False"],
        "def even(n): return n % 2 == 0",
        ["def even(n): return 1 - n % 2", "def even(n): return True"],
    ),
    "None": Styled(
        ["assert first([], 1) is None", "assert first([0, 1], 1) == 1"],
        "def first(x, v): return next((i for i, w in enumerate(x) if w == v), None)",
        ["def first(x, v): return x.index(v)", "def first(x, v): return -1 if v not in x else x.index(v)"],
    ),
    "text with every kind of character": Styled(
        ["assert mirrored('añ€😀\\n') == '\\n😀€ña'", "assert mirrored('\\ud800a') == 'a\\ud800'"],
        "def mirrored(s): return s[::-1]",
        ["def mirrored(s): return s.encode('utf-8', 'ignore').decode()[::-1] if s[0] != '\\ud800' else s"],
    ),
    "bytes and complex numbers": Styled(
        ["assert coded('ab') == b'ab'", "assert turned(1 + 2j) == -2 + 1j"],
        "def coded(s): return s.encode()\ndef turned(z): return z * 1j",
        ["def coded(s): return s\ndef turned(z): return z * 1j"],
    ),
    "long integers": Styled(
        ["assert power(3, 200) == 3 ** 200", "assert power(-2, 63) == -9223372036854775808"],
        "def power(a, b): return a ** b",
        ["def power(a, b): return float(a) ** b", "def power(a, b): return int(float(a) ** b)"],
    ),
    "fractions, decimals and dates": Styled(
        [
            "from fractions import Fraction\nassert half(3) == Fraction(3, 2)",
            "from decimal import Decimal\nassert exact('1.10') == Decimal('1.1')",
            "import datetime\nassert tomorrow(datetime.date(2024, 2, 28)) == datetime.date(2024, 2, 29)",
        ],
        "from fractions import Fraction\nfrom decimal import Decimal\nfrom datetime import timedelta\n"
        "def half(n): return Fraction(n, 2)\ndef exact(s): return Decimal(s)\ndef tomorrow(d): return d + timedelta(days=1)",
        [
            "from fractions import Fraction\nfrom decimal import Decimal\ndef half(n): return Fraction(n, 2)\ndef exact(s): return Decimal(s)\ndef tomorrow(d): return d"
        ],
    ),
    "an expected exception": Styled(
        [
            "try:\n    root(-1)\n    raised = False\nexcept ValueError:\n    raised = True\nassert raised",
            "assert root(4) == 2",
        ],
        "import math\ndef root(x): return math.sqrt(x)",
        [
            "def root(x): return abs(x) ** 0.5",
            "def root(x):\n    if x < 0: raise TypeError\n    return x ** 0.5",
            "import sys\ndef root(x):\n    if x < 0: sys.exit()\n    return x ** 0.5",
        ],
    ),
    "an expected exception of a class below": Styled(
        [
            "def raises(f, *a):\n    try:\n        f(*a)\n    except ValueError as error:\n        return str(error)\nassert raises(root, -1) == 'negative'",
            "assert root(4) == 2",
        ],
        "class Negative(ValueError): pass\ndef root(x):\n    if x < 0: raise Negative('negative')\n    return x ** 0.5",
        [
            "class Negative(Exception): pass\ndef root(x):\n    if x < 0: raise Negative('negative')\n    return x ** 0.5"
        ],
    ),
    "an argument changed in place": Styled(
        ["x = [3, 1, 2]\nput_in_order(x)\nassert x == [1, 2, 3]", "d = {}\nput(d, 1)\nassert d == {1: True}"],
        "def put_in_order(x): x.sort()\ndef put(d, k): d[k] = True",
        ["def put_in_order(x): return sorted(x)\ndef put(d, k): d[k] = True"],
    ),
    "changed in place, and any result": Styled(
        ["x = [3, 1, 2]\nput_in_order(x)\nassert x == [1, 2, 3]"],
        "def put_in_order(x):\n    x.sort()\n    return lambda: x",
        ["def put_in_order(x): return lambda: x"],
    ),
    "objects that the tests make": Styled(
        [
            "assert longest([Pair(5, 24), Pair(15, 25), Pair(27, 40)], 3) == 2",
            "assert longest([Pair(1, 2), Pair(3, 4)], 2) == 2",
        ],
        "class Pair(object):\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n"
        "def longest(arr, n):\n    best = [1] * n\n    for i in range(n):\n        for j in range(i):\n            if arr[i].a > arr[j].b: best[i] = max(best[i], best[j] + 1)\n    return max(best)",
        [
            "class Pair:\n    def __init__(self, a, b): pass\ndef longest(arr, n): return n",
            "Pair = tuple\ndef longest(arr, n): return 2",
        ],
    ),
    "a tree in the setup": Styled(
        ["assert (height(root)) == 3", "assert (height(root.left)) == 2", "assert root.left.left.data == 4"],
        NODE + "def height(n): return 0 if n is None else 1 + max(height(n.left), height(n.right))",
        [
            NODE + "def height(n): return 3",
            NODE + "def height(n): return 0 if n is None else 1 + height(n.left) + height(n.right)",
        ],
        setup="root = Node(1) \r\nroot.left = Node(2) \r\nroot.right = Node(3); \r\nroot.left.left = Node(4);  \r\nroot.left.right = Node(5)\r\n",
    ),
    "methods and class attributes": Styled(
        [
            "a = Account(5)\na.put(3)\nassert a.total() == 8\nassert Account.limit == 10",
            "assert Account.of('7').total() == 7",
            "assert not isinstance(3, Account)",
        ],
        "class Account:\n    limit = 10\n    def __init__(self, n): self.n = n\n    def put(self, m): self.n += m\n    def total(self): return self.n\n"
        "    @staticmethod\n    def of(text): return Account(int(text))",
        [
            "class Account:\n    limit = 10\n    def __init__(self, n): self.n = n\n    def put(self, m): pass\n    def total(self): return self.n\n    @staticmethod\n    def of(text): return Account(int(text))"
        ],
    ),
    "constants of the reference": Styled(
        ["assert named(RED) == 'red' and named(GREEN) == 'green'"],
        "RED, GREEN = 0, 1\nNAMES = ['red', 'green']\ndef named(n): return NAMES[n]",
        ["RED = GREEN = 'red'\ndef named(n): return 'red'"],
    ),
    "a function called like a builtin": Styled(
        ["assert sum(10, 15) == 6", "assert sum(100, 150) == 93"],
        "def sum(a, b):\n    total = 0\n    for i in range(1, min(a, b)):\n        if a % i == 0 and b % i == 0: total += i\n    return total",
        ["def sum(a, b): return a + b"],
    ),
    "two functions, one of them by another name": Styled(
        ["assert total([1, 2]) == 3", "assert doubled(4) == 8"],
        "total = sum\ndoubled = lambda x: 2 * x",
        ["total = sum\ndoubled = lambda x: x", "total = len\ndoubled = lambda x: 2 * x"],
    ),
    "keywords, defaults and functions of no arguments": Styled(
        ["assert power(2) == 4", "assert power(base=2, exponent=3) == 8", "assert one() == 1"],
        "def power(base, exponent=2): return base ** exponent\ndef one(): return 1",
        ["def power(base, exponent=3): return base ** exponent\ndef one(): return 1"],
    ),
    "code with carriage returns": Styled(
        ["assert area(2,3)==6 ", "assert area(1,1) == 1\r\n"],
        "def area(a,b): \r\n\tc = a * b \r\n\treturn c \r",
        ["def area(a,b): \r\n\treturn a \r\n"],
    ),
}

# HumanEval's and EvalPlus's form: prompt, test, reference body, wrong bodies; the function is `f`.
CHECKS: dict[str, tuple[str, str, str, list[str]]] = {
    "random inputs and a helper of the prompt": (
        "def encode(s: str):\n    return s[1:] + s[:1]\n\n\ndef f(s: str):\n",
        "def check(candidate):\n    from random import choice, randint\n    import string\n    for _ in range(20):\n"
        "        text = ''.join(choice(string.ascii_lowercase) for _ in range(randint(1, 9)))\n"
        "        assert candidate(encode(text)) == text\n",
        "    return s[-1:] + s[:-1]\n",
        [
            "    return encode(s)\n",
            "    import random, string\n    return ''.join(random.choice(string.ascii_lowercase) for _ in range(random.randint(1, 9)))\n",
        ],
    ),
    "messages and metadata": (
        "def f(x: float) -> float:\n",
        "\n\nMETADATA = {'author': 'jt'}\n\n\ndef check(candidate):\n    assert candidate(3.5) == 0.5\n"
        "    assert abs(candidate(1.33) - 0.33) < 1e-6, 'not the decimals'\n    assert True, 'always'\n",
        "    return x % 1.0\n",
        ["    return x\n", "    return round(x % 1.0)\n"],
    ),
    "EvalPlus with a tolerance and NumPy": (
        "def f(x):\n",
        "import numpy as np\n\ndef is_floats(x) -> bool:\n    if isinstance(x, float): return True\n"
        "    if isinstance(x, (list, tuple)) and x: return all(isinstance(i, float) for i in x)\n"
        "    if isinstance(x, np.ndarray): return x.dtype == np.float64\n    return False\n\n"
        "def assertion(out, exp, atol):\n    exact_match = out == exp\n    if atol == 0 and is_floats(exp): atol = 1e-6\n"
        "    if not exact_match and atol != 0:\n        assert type(out) == type(exp)\n        if isinstance(exp, (list, tuple)): assert len(out) == len(exp)\n"
        "        assert np.allclose(out, exp, rtol=1e-07, atol=atol)\n    else:\n        assert exact_match\n\n"
        "def check(candidate):\n    inputs = [[[1, 2]], [[3.0]], [[]]]\n    results = [[0.1, 0.2], [0.30000000000000004], []]\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, 0)\n",
        "    return [v * 0.1 for v in x]\n",
        ["    return x\n", "    return tuple(v * 0.1 for v in x)\n", "    return [float('nan') for v in x]\n"],
    ),
    "EvalPlus with a reference function": (
        "def f(n):\n",
        "def ref_func(n):\n    return [d for d in range(1, n + 1) if n % d == 0]\n\ndef check(candidate):\n"
        "    for n in range(1, 30):\n        assert candidate(n) == ref_func(n)\n",
        "    return [d for d in range(1, n + 1) if not n % d]\n",
        ["    return list(range(1, n + 1))\n", "    return ref_func(n)\n"],
    ),
}
