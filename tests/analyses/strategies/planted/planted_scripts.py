"""Programs of several parts for the fingerprint `program`: examples under functions, scripts that read, imported names.

Written before revision 3, which tells examples from scripts and imported names by their scope.
"""

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
