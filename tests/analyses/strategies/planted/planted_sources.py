"""Small programs for the fingerprint `program`: several ideas for each task, and pairs rewritten by hand."""

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
