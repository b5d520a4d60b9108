"""Texts made to hang, exhaust or escape: what a verifier meets at a million samples. Plain data, nothing runs here."""

DEEP = 5_000
LONG = 10_000_000

# (gold, answer): judged within the limit, whatever the verdict; none of them is correct.
SYMBOLIC: list[tuple[str, str]] = [
    # towers and large powers
    ("4", "9^{9^{9^{9}}}"),
    ("4", "9**9**9**9"),
    ("4", "2^{2^{2^{2^{2^{2}}}}}"),
    ("4", "10^{10^{10}}"),
    ("4", "7^{99999999999}"),
    ("4", "(1+10^{-9})^{10^{12}}"),
    ("4", "\\left(\\left(9^{9}\\right)^{9^{9}}\\right)^{9}"),
    ("4", "\\sqrt[9]{9^{9^{9^9}}}"),
    ("x", "(x+y+z+w)^{4000}"),
    ("x", "(((((x+1)^{9}+1)^{9}+1)^{9}+1)^{9}+1)^{9}"),
    ("9^{9^{9^{9}}}", "9^{9^{9^{8}}}"),
    # factorials, sums, products, binomials, integrals
    ("4", "99999999!"),
    ("4", "((9!)!)!"),
    ("4", "9!!!!!!!!!!!!"),
    ("4", "factorial(factorial(20))"),
    ("4", "\\sum_{n=1}^{10^{12}} \\frac{1}{n}"),
    ("4", "\\sum_{n=1}^{99999999} n!"),
    ("4", "\\prod_{k=1}^{10^9} k"),
    ("4", "\\binom{10^{9}}{5 \\cdot 10^{8}}"),
    ("4", "\\int_0^1 \\int_0^1 \\int_0^1 e^{x^{y^{z}}} \\sin(x^{y}) dx dy dz"),
    ("4", "\\lim_{n \\to \\infty} \\left(1+\\frac{1}{n!}\\right)^{n^{n}}"),
    # nesting
    ("4", "\\sqrt{" * DEEP + "2" + "}" * DEEP),
    ("4", "\\frac{1}{" * DEEP + "2" + "}" * DEEP),
    ("4", "\\left(" * DEEP + "4.5" + "\\right)" * DEEP),
    ("4", "(" * DEEP + "5" + ")" * DEEP),
    ("4", "{" * DEEP + "5" + "}" * DEEP),
    ("4", "\\boxed{" * DEEP + "5" + "}" * DEEP),
    ("4", "\\boxed{" * DEEP),
    ("4", "-" * DEEP + "5"),
    ("4", "\\sin" * DEEP + "x"),
    ("4", "2^" * DEEP + "2"),
    # length
    ("4", "7" * LONG),
    ("4", "1+" * (LONG // 2) + "1"),
    ("4", "x" * LONG),
    ("4", "\\frac" * (LONG // 5)),
    ("4", " " * LONG),
    ("4", "0." + "3" * 1_000_000),
    ("\\{1,2\\}", "\\{" + ",".join(str(n) for n in range(200_000)) + "\\}"),
    ("4", "\\begin{pmatrix}" + "1 & 2 \\\\ " * 100_000 + "\\end{pmatrix}"),
    # texts on which patterns backtrack
    ("4", "a" * 50_000 + "!"),
    ("4", "the final answer is " * 20_000),
    ("4", "answer: " + " \t" * 200_000 + "x"),
    ("4", "$" * 100_000),
    ("4", "\\text{" * 20_000),
    ("4", "1," * 200_000 + "x"),
    ("4", "1 " * 200_000 + "x"),
    ("4", "<answer>" * 50_000),
    ("4", "\\(" * 50_000 + "\\[" * 50_000),
    ("4", "=" * 200_000),
    ("4", "x=" * 50_000),
    # signs
    ("4", "\x00"),
    ("4", "5\x004"),
    ("4", "\ud800"),
    ("4", "\udcff\ud83d"),
    ("4", "\u202e5\u202c"),
    ("4", "\u200b" * 10_000),
    ("4", "a\u0300" * 20_000),
    ("4", "ﷺ" * 10_000),
    ("4", "²" * 5_000),
    ("4", "½" * 5_000),
    ("4", ""),
    # code in place of mathematics
    ("4", "__import__('os').system('sleep 60')"),
    ("4", "().__class__.__bases__[0].__subclasses__()"),
    ("4", "exec('while True: pass')"),
    ("4", "[x for x in range(10**12)]"),
    ("4", "lambda: 4"),
]

# Programs that must all be wrong, each within its limit. {secret} is a file of the user's that holds
# "a secret", {port} a server on the loopback of the host, {marker} a word to find processes by.
PROGRAMS: dict[str, str] = {
    "infinite loop": "while True: pass",
    "infinite loop that ignores signals": (
        "import signal\n"
        "for number in range(1, 32):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except OSError: pass\n"
        "while True: pass"
    ),
    "sleeps forever": "import time\ntime.sleep(10**6)",
    "one multiplication that never ends": "x = (3**80_000_000)**50",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "fork bomb of sessions": (
        "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass"
    ),
    "thread bomb": (
        "import threading, time\nwhile True:\n"
        "    try: threading.Thread(target=time.sleep, args=(100,)).start()\n    except RuntimeError: pass"
    ),
    "memory hog": "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "memory hog of many processes": (
        "import os\nfor _ in range(20): os.fork()\nx = bytearray(1 << 28)\nfor i in range(0, len(x), 4096): x[i] = 1\n"
        "import time\ntime.sleep(100)"
    ),
    "disk hog": "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "disk hog of many files": (
        "n = 0\nwhile True:\n    n += 1\n    with open(f'big{n}', 'wb') as f: f.write(bytes(1 << 20))"
    ),
    "floods its output": "while True: print('y' * 10_000)",
    "floods its errors": "import sys\nwhile True: sys.stderr.write('y' * 10_000)",
    "daemon": (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.execvp('sleep', ['sleep', '600.{marker}'])\n    os._exit(0)\n"
        "time.sleep(0.3)"
    ),
    "reads a file": "print(open('{secret}').read())",
    "reads the home folder": "import os\nprint(os.listdir(os.path.dirname('{secret}')))",
    "writes outside its folder": "open('{secret}', 'w').write('spoiled')",
    "removes files": "import shutil, os\nshutil.rmtree(os.path.dirname('{secret}'))",
    "opens a socket": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).sendall(b'x')",
    "asks the network": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:{port}/', timeout=2)",
    "shows the environment": "import os\nprint(os.environ['{marker}'])",
    "kills everybody": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "exits": "import sys\nsys.exit(0)",
    "exits at once": "import os\nos._exit(0)",
    "raises SystemExit": "raise SystemExit(0)",
    "empty": "",
    "comment": "# nothing",
    "no code": "The answer is 4.",
    "nested too deeply": "x = " + "(" * 10_000 + ")" * 10_000,
    "nested operators": "x = " + "-" * 100_000 + "1",
    "nested lists": "x = " + "[" * 90 + "]" * 90 + "\n" + "def f():\n return f()\nf()",
    "ten megabytes": "x = 0\n" + "x += 1\n" * 1_400_000,
    "NUL": "x = 1\x00",
    "lone surrogate": "x = '\ud800'",
    "crashes the interpreter": "import ctypes\nctypes.string_at(0)",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f([x])\nf(1)",
}

# Those that do no more after half a second than they did in it: a short limit sees all of them.
ENDLESS = {
    *("infinite loop", "infinite loop that ignores signals", "sleeps forever", "one multiplication that never ends"),
    *("fork bomb", "fork bomb of sessions", "thread bomb", "memory hog", "floods its output", "floods its errors"),
    "recursion",
}

# Those that use no processor time.
WAITING = {"sleeps forever"}
