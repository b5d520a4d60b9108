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
)
