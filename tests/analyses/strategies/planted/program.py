"""Planted pairs for the fingerprint `program`: one program rewritten, and two ideas for one task."""

import re
from collections.abc import Callable

import numpy as np

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem
from tests.analyses.strategies.planted.pair import Pair

COUNT = 60  # made pairs of each kind
_NAME = re.compile(r"\b[a-z_]\w*\b")
_TAKEN = {"sum", "len", "range", "sorted", "set", "max", "min", "abs", "reversed", "list", "dict", "str", "int", "all"}


def planted_program(seed: int = 0) -> list[Pair]:
    """Pairs that must merge, then pairs that must not; made ones first, then those written by hand."""
    rng = np.random.default_rng([seed, 13])
    same, different = list[Pair](), list[Pair]()
    for number in range(COUNT):
        name, sources = TASKS[number % len(TASKS)]
        asked = SolvedProblem(f"program-{name}", question=f"Write a function for: {name}")
        one, other = (sources[int(place)] for place in rng.choice(len(sources), size=2, replace=False))
        chosen = sorted(int(place) for place in rng.choice(len(CHANGES), size=3, replace=False))
        changed = one
        for place in chosen:
            changed = CHANGES[place](changed, rng)
        how = ", ".join(CHANGES[place].__name__ for place in chosen)
        same.append(Pair("program", True, asked, fenced(one, rng), fenced(changed, rng), how))
        different.append(Pair("program", False, asked, fenced(one, rng), fenced(other, rng), "two ideas"))
    alike, unlike = (*PROGRAMS_SAME, *SCRIPTS_SAME), (*PROGRAMS_DIFFERENT, *SCRIPTS_DIFFERENT)
    same += [Pair("program", True, SolvedProblem("by hand"), one, other, "by hand") for one, other in alike]
    different += [Pair("program", False, SolvedProblem("by hand"), one, other, "by hand") for one, other in unlike]
    return same + different


def fenced(source: str, rng: np.random.Generator) -> str:
    """The program as a model gives it: in a block of code, with or without words around it."""
    before = str(rng.choice(["", "Here is a solution.\n\n", "<think>Let me see.</think>\nThe idea is simple:\n"]))
    after = str(rng.choice(["", "\n\nIt runs in linear time."]))
    return f"{before}```python\n{source}\n```{after}"


def renamed(source: str, rng: np.random.Generator) -> str:
    """Every parameter and variable under another name."""
    own = dict.fromkeys(re.findall(r"(?<![\w.])([a-z_]\w*)(?= (?:[-+*/]|//)?= )|\bfor ([a-z_]\w*)", source))
    names = [one or other for one, other in own]
    for inside in re.findall(r"def \w+\(([^)]*)\)", source):
        names += [part.split(":")[0].split("=")[0].strip() for part in inside.split(",")]
    new = {name: f"{rng.choice(['value', 'item', 'x', 'acc'])}_{place}" for place, name in enumerate(names) if name}
    return _NAME.sub(lambda found: found[0] if found[0] in _TAKEN else new.get(found[0], found[0]), source)


def commented(source: str, rng: np.random.Generator) -> str:
    """A comment at the end of a line and one on its own."""
    lines = source.split("\n")
    lines[0] += "  # the function"
    return "\n".join([f"# approach {rng.integers(9)}", *lines])


def documented(source: str, rng: np.random.Generator) -> str:
    """A docstring under the head of the first function."""
    return re.sub(r"(def [^\n]*:\n)", '\\1    """Solve it.\n\n    Example: none."""\n', source, count=1)


def spaced(source: str, rng: np.random.Generator) -> str:
    """Indentation of two, blank lines between statements."""
    lines = [" " * ((len(line) - len(line.lstrip())) // 2) + line.lstrip() for line in source.split("\n")]
    return "\n\n".join(lines)


def bracketed(source: str, rng: np.random.Generator) -> str:
    """Brackets around what is returned."""
    return re.sub(r"return (\S[^\n]*)", r"return (\1)", source)


def hinted(source: str, rng: np.random.Generator) -> str:
    """Types of the parameters and of the result."""

    def head(found: re.Match[str]) -> str:
        parts = [part.strip() for part in found[2].split(",") if part.strip()]
        return f"def {found[1]}({', '.join(part if '=' in part else f'{part}: object' for part in parts)}) -> object:"

    return re.sub(r"def (\w+)\(([^)]*)\):", head, source)


def shown(source: str, rng: np.random.Generator) -> str:
    """An example of its use under it."""
    name = re.findall(r"def (\w+)", source)[-1]
    return f'{source}\n\nif __name__ == "__main__":\n    print({name}([{rng.integers(9)}, 2, 3]))'


Change = Callable[[str, np.random.Generator], str]
CHANGES: tuple[Change, ...] = (renamed, hinted, commented, documented, bracketed, shown, spaced)

# Programs of several parts for the fingerprint `program`: examples under functions, scripts that read, imported
# names.
#
# Written before revision 3, which tells examples from scripts and imported names by their scope.


_SUMS = "def f(n):\n    return n * (n + 1) // 2\n"
_PAIR = "class Solution:\n    def go(self, a, t):\n        return [i for i in range(len(a)) if a[i] == t]\n"
_READ = "def read():\n    return int(input())\n"
_DATA = "def data():\n    return list(map(int, input().split()))\n"
_TWO = (
    "def up(n):\n    s = 0\n    for i in range(n + 1):\n        s += i\n    return s\n"
    "def at_once(n):\n    return n * (n + 1) // 2\n"
)


def _fenced(*pairs: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((f"```python\n{one}\n```", f"```python\n{other}\n```") for one, other in pairs)


SCRIPTS_SAME: tuple[tuple[str, str], ...] = _fenced(
    # examples under a function
    (_SUMS, _SUMS + "print(f(3))"),
    (_SUMS, _SUMS + 'print("f(3) =", f(3))'),
    (_SUMS, _SUMS + 'print(f"The sum of 1 to 3 is {f(3)}.")'),
    (_SUMS, _SUMS + "f(10**9)\nprint(f(-1))"),
    (_SUMS, _SUMS + 'assert f(3) == 6\nassert f(0) == 0, "nothing"\nprint("All tests passed!")'),
    (_SUMS + "print(f(3))\nprint(f(4))", _SUMS + 'if __name__ == "__main__":\n    assert f(100) == 5050'),
    (_SUMS, _SUMS + "n = 3\nprint(f(n))"),
    (_SUMS, _SUMS + "for n in [1, 2, 3]:\n    print(f(n))"),
    (_SUMS, _SUMS + 'if __name__ == "__main__":\n    import doctest\n    doctest.testmod()'),
    (_PAIR, _PAIR + "print(Solution().go([2, 7, 2], 2))"),
    (_PAIR + "s = Solution()\nprint(s.go([1], 1))", _PAIR + "s = Solution()\nprint(s.go([1, 2], 2))"),
    (
        "class Node:\n    def __init__(self, v, n=None):\n        self.v, self.n = v, n\n"
        "def f(a):\n    return 0 if a is None else 1 + f(a.n)\n",
        "class Node:\n    def __init__(self, v, n=None):\n        self.v, self.n = v, n\n"
        "def f(a):\n    return 0 if a is None else 1 + f(a.n)\nprint(f(Node(1, Node(2))))",
    ),
    ("def f(input):\n    return input * 2\n", "def f(x):\n    return x * 2\nprint(f(4))"),
    # scripts
    (
        _READ + "n = read()\nprint(n * (n + 1) // 2)",
        _READ.replace("read", "get") + "k = get()\nprint(k * (k + 1) // 2)",
    ),
    (
        "def main():\n    n = int(input())\n    print(n * n)\nmain()",
        'def solve():\n    m = int(input())\n    print(m * m)\n\nif __name__ == "__main__":\n    solve()',
    ),
    (
        "def main():\n    print(sum(range(100)))\nmain()",
        'def run() -> None:\n    """Print it."""\n    print(sum(range(100)))\n\nif __name__ == "__main__":\n    run()',
    ),
    (
        "import sys\ndef g(a):\n    return max(a)\ndata = sys.stdin.read().split()\nprint(g(data))",
        "from sys import stdin\ndef g(words):\n    return max(words)\nwords = stdin.read().split()\nprint(g(words))",
    ),
    # imported names
    (
        "from math import gcd\ndef f(gcd, b):\n    return gcd + b\n",
        "from math import gcd\ndef f(a, b):\n    return a + b\n",
    ),
    (
        "from queue import Queue\ndef f(a):\n    queue = Queue()\n    queue.put(a)\n    return queue\n",
        "import queue\ndef f(a):\n    q = queue.Queue()\n    q.put(a)\n    return q\n",
    ),
    (
        "def g(a, b):\n    from math import gcd\n    return gcd(a, b)\ndef f(a):\n    gcd = a[0]\n"
        "    for x in a:\n        gcd = g(gcd, x)\n    return gcd\n",
        "import math\ndef g(a, b):\n    return math.gcd(a, b)\ndef f(a):\n    d = a[0]\n"
        "    for x in a:\n        d = g(d, x)\n    return d\n",
    ),
    (
        "from time import time\nstart = time()\ndef f(a):\n    time = a[0]\n    return time - start\n",
        "import time\nstart = time.time()\ndef f(a):\n    t = a[0]\n    return t - start\n",
    ),
)
SCRIPTS_DIFFERENT: tuple[tuple[str, str], ...] = _fenced(
    (_READ + "n = read()\nprint(n * (n + 1) // 2)", _READ + "n = read()\nprint(sum(range(n + 1)))"),
    (_DATA + "r = data()\nr.sort()\nprint(*r)", _DATA + "r = data()\nr.reverse()\nprint(*r)"),
    (_DATA + "print(max(data()))", _DATA + "print(sorted(data())[-1])"),
    (
        "def data():\n    return [3, 1, 2]\nprint(max(data()))",
        "def data():\n    return [3, 1, 2]\nprint(sorted(data())[-1])",
    ),
    (_TWO + "print(up(int(input())))", _TWO + "print(at_once(int(input())))"),
    (
        "import sys\n" + _TWO + "n = int(sys.argv[1])\nprint(up(n))",
        "import sys\n" + _TWO + "n = int(sys.argv[1])\nprint(at_once(n))",
    ),
    (
        "def g(line):\n    return int(line)\na = [g(line) for line in open(0)]\nprint(sum(a) // len(a))",
        "def g(line):\n    return int(line)\na = [g(line) for line in open(0)]\nprint(sorted(a)[len(a) // 2])",
    ),
    (
        "from sys import stdin as source\ndef up(k):\n    return sorted(source)[k]\n"
        "def down(k):\n    return max(source)[k]\nprint(up(0))",
        "from sys import stdin as source\ndef up(k):\n    return sorted(source)[k]\n"
        "def down(k):\n    return max(source)[k]\nprint(down(0))",
    ),
    (
        "def squares(n):\n    return [i * i for i in range(n)]\nprint(sum(squares(100)))",
        "def squares(n):\n    return [i * i for i in range(n)]\nprint(squares(100)[-1] * 100)",
    ),
    (
        "def g(a):\n    return a[0]\na = input().split()\nassert g(a)\na.sort(key=g)\nprint(a)",
        "def g(a):\n    return a[0]\na = input().split()\nassert g(a)\nprint(a)",
    ),
    (
        "from math import log\ndef f(log, x):\n    return log(x)\n",
        "from math import log\ndef f(h, x):\n    return log(x)\n",
    ),
    (
        "def g(x):\n    from math import sqrt\n    return sqrt(x)\ndef f(sqrt, x):\n    return sqrt(x) + g(x)\n",
        "def g(x):\n    from math import sqrt\n    return sqrt(x)\n"
        "def f(h, x):\n    from math import sqrt\n    return sqrt(x) + g(x)\n",
    ),
)

# Small programs for the fingerprint `program`: several ideas for each task, and pairs rewritten by hand.


TASKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "sum of the even numbers",
        (
            "def f(a):\n    total = 0\n    for n in a:\n        if n % 2 == 0:\n"
            "            total += n\n    return total",
            "def f(a):\n    return sum(n for n in a if n % 2 == 0)",
            "def f(a):\n    if not a:\n        return 0\n    return (a[0] if a[0] % 2 == 0 else 0) + f(a[1:])",
        ),
    ),
    (
        "largest number",
        (
            "def f(a):\n    best = a[0]\n    for n in a:\n        if n > best:\n            best = n\n    return best",
            "def f(a):\n    return max(a)",
            "def f(a):\n    return sorted(a)[-1]",
        ),
    ),
    (
        "two numbers with a sum",
        (
            "def f(a, t=9):\n    for i in range(len(a)):\n        for j in range(i + 1, len(a)):\n"
            "            if a[i] + a[j] == t:\n                return [i, j]",
            "def f(a, t=9):\n    seen = {}\n    for i, n in enumerate(a):\n        if t - n in seen:\n"
            "            return [seen[t - n], i]\n        seen[n] = i",
        ),
    ),
    (
        "reverse a list",
        (
            "def f(a):\n    return a[::-1]",
            "def f(a):\n    out = []\n    for n in a:\n        out.insert(0, n)\n    return out",
            "def f(a):\n    return list(reversed(a))",
            "def f(a):\n    i = 0\n    j = len(a) - 1\n    while i < j:\n        a[i], a[j] = a[j], a[i]\n"
            "        i += 1\n        j -= 1\n    return a",
        ),
    ),
    (
        "sum of 1 to n",
        (
            "def f(a):\n    n = len(a)\n    return n * (n + 1) // 2",
            "def f(a):\n    n = len(a)\n    return sum(range(1, n + 1))",
            "def f(a):\n    s = 0\n    i = 1\n    while i <= len(a):\n        s += i\n        i += 1\n    return s",
        ),
    ),
    (
        "greatest common divisor of all",
        (
            "from math import gcd\nfrom functools import reduce\n\ndef f(a):\n    return reduce(gcd, a)",
            "def g(x, y):\n    while y:\n        x, y = y, x % y\n    return x\n\n"
            "def f(a):\n    d = 0\n    for n in a:\n        d = g(d, n)\n    return d",
            "def f(a):\n    for d in range(min(a), 0, -1):\n        if all(n % d == 0 for n in a):\n"
            "            return d",
        ),
    ),
    (
        "whether it reads the same backwards",
        (
            "def f(a):\n    return a == a[::-1]",
            "def f(a):\n    for i in range(len(a) // 2):\n        if a[i] != a[len(a) - 1 - i]:\n"
            "            return False\n    return True",
        ),
    ),
    (
        "how often each occurs",
        (
            "def f(a):\n    c = {}\n    for n in a:\n        c[n] = c.get(n, 0) + 1\n    return c",
            "from collections import Counter\n\ndef f(a):\n    return dict(Counter(a))",
            "def f(a):\n    return {n: a.count(n) for n in set(a)}",
        ),
    ),
)
PROGRAMS_SAME: tuple[tuple[str, str], ...] = (
    ("```python\ndef f(n):\n    n += 1\n    return n\n```", "```python\ndef f(k):\n    k = k + 1\n    return k\n```"),
    ("```\ndef f(a, b):\n    return a + b\n```", "```\ndef f(a, b):\n    return b + a\n```"),
    (
        "```py\nimport math\ndef f(a, b):\n    return math.gcd(a, b)\n```",
        "def f(x, y):\n    from math import gcd\n    return gcd(x, y)",
    ),
    (
        "```py\nimport numpy as np\ndef f(a):\n    return np.sum(a)\n```",
        "```py\nimport numpy\ndef f(a):\n    return numpy.sum(a)\n```",
    ),
    (
        "```\ndef f(a):\n    if a > 3:\n        return 1\n    return 0\n```",
        "```\ndef f(a):\n    if 3 < a:\n        return 1\n    return 0\n```",
    ),
    (
        "```\ndef f(a):\n    if a:\n        return 1\n    return 0\n```",
        "```\ndef f(a):\n    if a:\n        return 1\n    else:\n        return 0\n```",
    ),
    ("```\ndef f(a):\n    r = max(a)\n    return r\n```", "```\ndef f(a):\n    return max(a)\n```"),
    (
        "```\nclass S:\n    def go(self, a):\n        return self.h(a)\n    def h(self, a):\n        return a * 2\n```",
        "```\nclass S:\n    def go(self, n):\n        return self.twice(n)\n"
        "    def twice(self, n):\n        return n * 2\n```",
    ),
    (
        "```\ndef h(a):\n    return a + 1\ndef f(a):\n    return h(a)\n```",
        "```\ndef f(a):\n    return h(a)\n\ndef h(a):\n    return a + 1\n```",
    ),
    (
        "```\ndef f(a: int) -> int:\n    x: int = a\n    return x * 2\n```",
        "```\ndef f(a):\n    x = a\n    return x * 2\n```",
    ),
    ("```\ndef f(s):\n    return 'ab' + s\n```", '```\ndef f(s):\n    return "ab" + s\n```'),
    (
        "```\ndef f(a):\n    return [x for x in a if x]\n```",
        "```\ndef f(a):\n    return [\n        y\n        for y in a\n        if y\n    ]\n```",
    ),
    (
        "```\ndef f(a):\n    i, j = 0, 1\n    return a[i] + a[j]\n```",
        "```\ndef f(a):\n    i = 0\n    j = 1\n    return a[i] + a[j]\n```",
    ),
    (
        "First try:\n```python\ndef f(a):\n    return a\n```\nBetter:\n```python\ndef f(a):\n    return a * 2\n```",
        "```python\ndef f(b):\n    return b * 2\n```",
    ),
    ("```\ndef f(n):\n    return n == 1000000\n```", "```\ndef f(n):\n    return n == 1_000_000\n```"),
    # since revision 2: names that are also methods, attributes, builtins or keywords
    (
        "```\ndef f(a, x):\n    count = a.count(x)\n    return count + 1\n```",
        "```\ndef f(a, x):\n    n = a.count(x)\n    return n + 1\n```",
    ),
    (
        "```\na = list(map(int, input().split()))\nsum = sum(a)\nprint(sum)\n```",
        "```\na = list(map(int, input().split()))\ntotal = sum(a)\nprint(total)\n```",
    ),
    (
        "```\ndef f(a):\n    max = a[0]\n    for x in a:\n        if x > max:\n"
        "            max = x\n    return max\n```",
        "```\ndef f(a):\n    best = a[0]\n    for x in a:\n        if x > best:\n"
        "            best = x\n    return best\n```",
    ),
    (
        "```\nclass S:\n    def __init__(self, x):\n        self.total = x\n"
        "    def get(self):\n        return self.total\n```",
        "```\nclass S:\n    def __init__(self, n):\n        self.amount = n\n"
        "    def get(self):\n        return self.amount\n```",
    ),
    (
        "```\nclass S:\n    def __init__(self, total):\n        self.total = total\n```",
        "```\nclass S:\n    def __init__(self, start):\n        self.total = start\n```",
    ),
    (
        "```\ndef g(a, key=1):\n    return a + key\ndef f(a):\n    return g(a, key=2)\n```",
        "```\ndef g(a, step=1):\n    return a + step\ndef f(a):\n    return g(a, step=2)\n```",
    ),
    (
        "```\ndef g(n):\n    return n * 2\ndef f(n):\n    return g(n)\n```",
        "```\ndef g(x):\n    return x * 2\ndef f(n):\n    return g(n)\n```",
    ),
    (
        "```\ndef f(words):\n    index = {}\n    for i, w in enumerate(words):\n        index[w] = i\n"
        "    return index\n```",
        "```\ndef f(words):\n    places = {}\n    for i, w in enumerate(words):\n        places[w] = i\n"
        "    return places\n```",
    ),
    (
        "```\nclass S:\n    def go(self, n):\n        return self.step(n, depth=0)\n"
        "    def step(self, n, depth):\n        return n + depth\n```",
        "```\nclass S:\n    def go(self, n):\n        return self.walk(n, level=0)\n"
        "    def walk(self, n, level):\n        return n + level\n```",
    ),
    (
        "```\nclass Node:\n    def __init__(self, v):\n        self.v = v\n        self.kids = []\n"
        "def f(v):\n    node = Node(v)\n    node.kids.append(1)\n    return node\n```",
        "```\nclass Node:\n    def __init__(self, v):\n        self.v = v\n        self.children = []\n"
        "def f(v):\n    node = Node(v)\n    node.children.append(1)\n    return node\n```",
    ),
    (
        "```\ndef f(a):\n    return [x for x in a] + [x * 2 for x in a]\n```",
        "```\ndef f(a):\n    return [x for x in a] + [y * 2 for y in a]\n```",
    ),
)
PROGRAMS_DIFFERENT: tuple[tuple[str, str], ...] = (
    (
        "```\ndef f(a, x):\n    count = a.count(x)\n    return count\n```",
        "```\ndef f(a, x):\n    index = a.index(x)\n    return index\n```",
    ),
    (
        "```\na = list(map(int, input().split()))\nsum = sum(a)\nprint(sum)\n```",
        "```\na = list(map(int, input().split()))\nmax = max(a)\nprint(max)\n```",
    ),
    (
        "```\nn = input()\nlen = len(n)\nprint(len)\n```",
        "```\nn = input()\nint = int(n)\nprint(int)\n```",
    ),
    (
        "```\ndef f(a):\n    sort = sorted(a)\n    a.sort()\n    return a == sort\n```",
        "```\ndef f(a):\n    reverse = sorted(a)\n    a.reverse()\n    return a == reverse\n```",
    ),
    (
        "```\ndef g(a):\n    min = a[0]\n    return min\ndef f(a):\n    return min(a) + g(a)\n```",
        "```\ndef g(a):\n    max = a[0]\n    return max\ndef f(a):\n    return max(a) + g(a)\n```",
    ),
    (
        "```\nclass S:\n    def __len__(self):\n        return 3\n```",
        "```\nclass S:\n    def __iter__(self):\n        return 3\n```",
    ),
    (
        "```\ndef f(upper):\n    return upper.upper()\n```",
        "```\ndef f(lower):\n    return lower.lower()\n```",
    ),
    (
        "```\nclass S:\n    def __init__(self):\n        self.low, self.high = 0, 9\n"
        "    def get(self):\n        return self.low\n```",
        "```\nclass S:\n    def __init__(self):\n        self.low, self.high = 0, 9\n"
        "    def get(self):\n        return self.high\n```",
    ),
    (
        "```\ndef g(a, b=0, c=0):\n    return a + 2 * b + 3 * c\ndef f(a):\n    return g(a, b=1)\n```",
        "```\ndef g(a, b=0, c=0):\n    return a + 2 * b + 3 * c\ndef f(a):\n    return g(a, c=1)\n```",
    ),
    (
        "```\ndef f(a):\n    pop = a.pop()\n    return pop\n```",
        "```\ndef f(a):\n    copy = a.copy()\n    return copy\n```",
    ),
    (
        "```\nclass S(Base):\n    def enter(self):\n        return 1\n```",
        "```\nclass S(Base):\n    def leave(self):\n        return 1\n```",
    ),
    (
        "```\nclass P:\n    def __init__(self):\n        self.x, self.y = 0, 1\n"
        "def f():\n    p = P()\n    return p.x\n```",
        "```\nclass P:\n    def __init__(self):\n        self.y, self.x = 0, 1\n"
        "def f():\n    p = P()\n    return p.x\n```",
    ),
)
