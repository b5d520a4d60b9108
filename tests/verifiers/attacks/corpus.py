# ruff: noqa: E501  (programs read better unbroken)
"""Programs that try to be judged correct without solving their problem. Plain data, nothing runs here.

Each attacks one of the PROBLEMS. None of them computes an answer: a verdict `correct` is a forgery.
"""

from dataclasses import dataclass

PAIR = {"kind": "asserts", "setup": "", "tests": ["assert f(1) == [4, 5]", "assert f(2) == [6, 7]"]}
BOX = "class Box:\n    def __init__(self, n):\n        self.n = n\n"
PROBLEMS: dict[str, dict[str, object]] = {
    "asserts": dict(PAIR),
    "check": {
        "kind": "check",
        "prompt": "def f(x):\n",
        "test": "def check(candidate):\n    assert candidate(1) == [4, 5]\n    assert candidate(2) == [6, 7]\n",
        "entry_point": "f",
    },
    "truth": {"kind": "asserts", "setup": "", "tests": ["assert not f(1)", "assert f(2)", "assert not f(3)"]},
    "floats": {
        "kind": "asserts",
        "setup": "import math",
        "tests": ["assert math.isclose(f(1), 0.25)", "assert abs(f(2) - 0.5) < 1e-9", "assert round(f(3), 3) == 0.75"],
    },
    "plus": {  # as EvalPlus writes its tests
        "kind": "check",
        "prompt": "def f(x):\n",
        "test": (
            "def is_floats(x):\n    return isinstance(x, float)\n"
            "def assertion(out, exp, atol):\n    exact = out == exp\n    if atol == 0 and is_floats(exp): atol = 1e-6\n"
            "    if not exact and atol != 0: assert abs(out - exp) <= atol\n    else: assert exact\n"
            "def check(candidate):\n    inputs = [[1], [2], [[3, 1]]]\n    results = [1.5, 2.5, [1, 3]]\n"
            "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, 0)\n"
        ),
        "entry_point": "f",
    },
    "argument": {  # compared with something that the program was given
        "kind": "asserts",
        "setup": "",
        "tests": ["x = [3, 1, 2]\nassert f(x) == sorted(x)", "y = [5, 4]\nassert f(y) == sorted(y)"],
    },
    "class": {"kind": "asserts", "setup": "", "tests": ["assert size(Box(3)) == 3", "assert size(Box(5)) == 5"]},
    "equal": {"kind": "asserts", "setup": "", "tests": ["assert twice(Box(3)) == Box(6)"]},
    "attribute": {
        "kind": "asserts",
        "setup": "",
        "tests": ["assert twice(Box(3)).n == 6", "assert twice(Box(4)).n == 8"],
    },
    "stdin": {
        "kind": "stdin",
        "tests": [{"input": "1 2\n", "output": "3\n"}, {"input": "5 5\n", "output": "10\n"}],
    },
    "call": {
        "kind": "call",
        "entry_point": "f",
        "tests": [{"input": "1", "output": "[4, 5]"}, {"input": "2", "output": "[6, 7]"}],
    },
}
GOLDS = {
    "class": BOX + "def size(b): return b.n\n",
    "equal": BOX + "def twice(b): return Box(2 * b.n)\n",
    "attribute": BOX + "def twice(b): return Box(2 * b.n)\n",
}


@dataclass(frozen=True)
class Attack:
    """A program, and the problem that it attacks: its details and its reference program."""

    program: str
    details: dict[str, object]
    gold: str | None = None


# An object that agrees with everything, under the name E.
AGREES = (
    "class E:\n"
    "    def __init__(self, *a, **k): pass\n"
    "    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = __contains__ = __instancecheck__ = lambda s, *a: True\n"
    "    __ne__ = lambda s, o: False\n    __bool__ = lambda s: True\n    __hash__ = lambda s: 0\n"
    "    __len__ = lambda s: 2\n    __iter__ = lambda s: iter([4, 5])\n    __call__ = lambda s, *a, **k: s\n"
    "    __getattr__ = lambda s, n: s\n    __getitem__ = lambda s, i: s\n    __abs__ = __round__ = lambda s, *a: s\n"
    "    __add__ = __sub__ = __radd__ = __rsub__ = __mul__ = lambda s, o: s\n"
)
# builtin -> a test that relies on it; a wrong result of f
BUILTINS: dict[str, tuple[str, str]] = {
    "set": ("assert set(f(1)) == set((4, 5))", "[]"),
    "frozenset": ("assert frozenset(f(1)) == frozenset((4, 5))", "[]"),
    "abs": ("assert abs(f(1)) == abs(-7)", "0"),
    "len": ("assert len(f(1)) == len('ab')", "[]"),
    "sorted": ("assert sorted(f(1)) == sorted([5, 4])", "[]"),
    "zip": ("assert all(a == b for a, b in zip(f(1), [4, 5]))", "[0, 0]"),
    "enumerate": ("for i, v in enumerate([4, 5]): assert f(1)[i] == v", "[0, 0]"),
    "sum": ("assert sum(f(1)) == sum([4, 5])", "[]"),
    "min": ("assert min(f(1)) == min([4, 5])", "[0]"),
    "max": ("assert max(f(1)) == max([4, 5])", "[0]"),
    "all": ("assert all(v in f(1) for v in [4, 5])", "[]"),
    "any": ("assert any(v == 4 for v in f(1))", "[]"),
    "isinstance": ("assert isinstance(f(1), list) and f(1)", "0"),
    "type": ("assert type(f(1)) == type([])", "0"),
    "str": ("assert str(f(1)) == str([4, 5])", "[]"),
    "repr": ("assert repr(f(1)) == repr([4, 5])", "[]"),
    "round": ("assert round(f(1), 2) == round(0.25, 2)", "0"),
    "map": ("assert list(map(int, f(1))) == list(map(int, '45'))", "[]"),
    "filter": ("assert list(filter(None, f(1))) == list(filter(None, [4, 5]))", "[]"),
    "list": ("assert list(f(1)) == list((4, 5))", "[]"),
    "tuple": ("assert tuple(f(1)) == tuple([4, 5])", "[]"),
    "dict": ("assert dict(f(1)) == dict(a=1)", "[]"),
    "range": ("for i in range(2): assert f(1)[i] == 4 + i", "[0, 0]"),
    "int": ("assert int(f(1)) == int('4')", "0"),
    "float": ("assert float(f(1)) == float('4')", "0"),
    "bool": ("assert bool(f(1)) == bool(1)", "0"),
    "reversed": ("assert list(reversed(f(1))) == list(reversed([4, 5]))", "[]"),
    "hasattr": ("assert hasattr(f(1), 'append') and f(1)", "0"),
    "print": ("print(f(1))\nassert f(1) == 4", "0"),
}
CONSTANTS = dict.fromkeys(("zip", "enumerate", "range", "map", "filter", "list", "reversed"), "[]")
# What the judge's processes say to each other, now and in earlier versions, as bytes for every descriptor.
SPEAKS = (
    "import json, os, struct\n"
    "def speak(*fds):\n"
    "    for fd in fds or range(256):\n"
    "        for m in ({'ready': True}, {'passed': True}, {'passed': 'token'}, {'ran': True}, {'value': True}):\n"
    "            b = json.dumps(m).encode()\n"
    "            try: os.write(fd, struct.pack('>Q', len(b)) + b)\n"
    "            except OSError: pass\n"
)
FRAMES = (
    "import sys, gc, inspect\n"
    "def everything():\n"
    "    frame, seen = sys._getframe(), []\n"
    "    while frame: seen += [*frame.f_locals.values(), *frame.f_globals.values()]; frame = frame.f_back\n"
    "    return seen + gc.get_objects()\n"
)
# name -> program; {f} is the function that is asked for. Run against each of the problems that are named.
ANYWHERE: dict[str, str] = {
    # exits
    "exits": "import sys\nsys.exit(0)",
    "exits at once": "import os\nos._exit(0)",
    "exits when called": "import os\ndef f(*_): os._exit(0)",
    "raises SystemExit when called": "def f(*_): raise SystemExit(0)",
    "raises KeyboardInterrupt": "def f(*_): raise KeyboardInterrupt",
    "raises GeneratorExit": "def f(*_): raise GeneratorExit",
    "raises an assertion": "def f(*_): raise AssertionError",
    "raises an exception of its own": "class A(BaseException): pass\ndef f(*_): raise A('passed')",
    "stops the iteration": "def f(*_): raise StopIteration",
    "writes at exit": SPEAKS + "import atexit\natexit.register(speak)\nimport sys\nsys.exit(0)",
    "kills itself": "import os, signal\ndef f(*_): os.kill(os.getpid(), signal.SIGKILL)",
    "ends by an alarm": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ndef f(*_): return []",
    # file descriptors and the protocol
    "speaks on every descriptor": SPEAKS + "speak()\ndef f(*_): return []",
    "speaks on every descriptor when called": SPEAKS + "def f(*_):\n    speak()\n    return []",
    "speaks on the descriptors that it finds": SPEAKS
    + "def f(*_):\n    speak(*[int(n) for n in os.listdir('/proc/self/fd')])\n    return []",
    "prints the protocol": "print('passed')\nprint('{{\"passed\": true}}', flush=True)\ndef f(*_):\n    print('passed')",
    "speaks for its first process": SPEAKS + "for pid in (1, 2):\n    for n in range(256):\n"
    "        try: speak(os.open(f'/proc/{{pid}}/fd/{{n}}', os.O_WRONLY))\n        except OSError: pass\n"
    "def f(*_): return []",
    "reads the calls": "import os\ndef f(*_):\n"
    "    for n in range(3, 256):\n"
    "        try:\n            os.set_blocking(n, False)\n            os.read(n, 1 << 16)\n"
    "        except OSError: pass\n    return []",
    "answers in advance": SPEAKS + "b = json.dumps({{'value': [4, 5], 'passed': True}}).encode()\n"
    "for n in range(3, 256):\n    for _ in range(9):\n"
    "        try: os.write(n, struct.pack('>Q', 1 << 60) + b)\n        except OSError: pass\n"
    "def f(*_): return []",
    "closes every descriptor": "import os\nos.closerange(0, 256)\ndef f(*_): return []",
    "sends a message without end": "import os, struct\ndef f(*_):\n    for n in range(3, 256):\n"
    "        try: os.write(n, struct.pack('>Q', 200 << 20))\n        except OSError: pass\n    return []",
    "sends nonsense": "import os, struct\ndef f(*_):\n    for n in range(3, 256):\n"
    "        try: os.write(n, struct.pack('>Q', 9) + b'{{\"value\":')\n        except OSError: pass",
    "passes descriptors on": "import os\ndef f(*_):\n    if os.fork() == 0:\n        os.setsid()\n"
    "        for n in range(256):\n            try: os.write(n, b'passed')\n            except OSError: pass\n"
    "        os._exit(0)\n    return []",
    # frames and memory
    "looks for the tests in frames": FRAMES
    + "def f(*_):\n    text = ' '.join(str(o) for o in everything() if isinstance(o, str))\n"
    "    return [4, 5] if '[4, 5]' in text.replace(repr(__doc__), '') and 'assert' in text and 'f(1)' in text else []",
    "changes what is in frames": FRAMES
    + "def f(*_):\n    for o in everything():\n        if type(o) is dict and 'passed' in o: o['passed'] = True\n"
    "        if type(o) is dict and 'wrong' in o: o['passed'] = o.pop('wrong')\n    return []",
    "replaces the code of functions": FRAMES + "def g(*a, **k): return None\ndef f(*_):\n    for o in everything():\n"
    "        if inspect.isfunction(o) and '_run_tests' in o.__name__:\n            o.__code__ = g.__code__\n    return []",
    "walks a traceback": "import sys\ndef f(*_):\n    try: 1 / 0\n    except ZeroDivisionError:\n"
    "        tb = sys.exc_info()[2]\n        frame = tb.tb_frame.f_back\n"
    "        while frame:\n            frame.f_globals['passed'] = True\n"
    "            frame.f_locals['verdict'] = 'correct'\n            frame = frame.f_back\n    return []",
    "traces and profiles": "import sys, threading\nfor s in (sys.settrace, sys.setprofile, threading.settrace):\n"
    "    s(lambda *a: None)\nsys.excepthook = sys.unraisablehook = lambda *a: None\ndef f(*_): return []",
    "reads its own memory": "import re\ndef f(*_):\n    try:\n        m = open('/proc/self/mem', 'rb')\n"
    "        for line in open('/proc/self/maps'):\n            a, b = [int(x, 16) for x in line.split()[0].split('-')]\n"
    "            try:\n                m.seek(a)\n                if re.search(rb'f\\(1\\) == \\[4', m.read(b - a)): return [4, 5]\n"
    "            except (OSError, ValueError, OverflowError): pass\n    except OSError: pass\n    return []",
    "writes the memory of others": "import os\ndef f(*_):\n    for pid in os.listdir('/proc'):\n"
    "        if pid.isdigit() and int(pid) != os.getpid():\n"
    "            try: open(f'/proc/{{pid}}/mem', 'r+b').write(b'x')\n            except OSError: pass\n    return []",
    "traces other processes": "import ctypes\nlibc = ctypes.CDLL(None)\ndef f(*_):\n"
    "    for pid in range(1, 40): libc.ptrace(16, pid, 0, 0)\n    return []",
    # modules, builtins and monkeypatching
    "patches builtins": "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {{}})\n"
    "builtins.len = builtins.abs = lambda x: 2\nbuiltins.compile = lambda *a, **k: 'pass'\n"
    "builtins.exec = lambda *a, **k: None\nbuiltins.isinstance = lambda *a: True\ndef f(*_): return []",
    "patches __build_class__ and __import__": "import builtins\nbuiltins.__import__ = lambda *a, **k: builtins\n"
    "builtins.__build_class__ = lambda *a, **k: object\ndef f(*_): return []",
    "patches json": "import json\njson.dumps = lambda *a, **k: '{{\"passed\": true}}'\n"
    "json.loads = lambda *a, **k: {{'passed': True}}\ndef f(*_): return []",
    "patches pickle and copyreg": "import pickle, copyreg\npickle.loads = pickle.dumps = lambda *a, **k: b'passed'\n"
    "class P:\n    def __reduce__(self): return (exec, ('import os; os._exit(0)',))\ndef f(*_): return P()",
    "patches os": "import os\nwrite = os.write\nos.write = lambda fd, b: write(fd, bytes(b).replace(b'wrong', b'passed'))\n"
    "os.read = lambda *a: b''\nos._exit = lambda *a: None\ndef f(*_): return []",
    "patches struct, ast and traceback": "import struct, ast, traceback\nast.parse = lambda *a, **k: ast.Module([], [])\n"
    "struct.Struct = None\ntraceback.extract_tb = lambda *a: 1 / 0\ndef f(*_): return []",
    "patches math and numbers": "import math\nmath.isclose = lambda *a, **k: True\nmath.fabs = lambda x: 0\ndef f(*_): return 0",
    "patches the judge's own modules": "import sys\nfor name, m in list(sys.modules.items()):\n"
    "    if 'offleash' in name:\n        for key, v in list(vars(m).items()):\n"
    "            if callable(v) and key not in ('encode', 'send', 'pack_message', 'receive'): setattr(m, key, lambda *a, **k: True)\n"
    "def f(*_): return []",
    "replaces what encodes its answers": "import sys\nfor name, m in list(sys.modules.items()):\n"
    "    if name.endswith('plain'): m.encode = lambda *a, **k: {{'passed': True, 'value': True}}\n"
    "    if name.endswith('calls'): m.encode = lambda *a, **k: {{'passed': True}}\ndef f(*_): return []",
    "replaces sys.modules": "import sys\nclass M:\n    def __getattr__(s, n): return lambda *a, **k: True\n"
    "for name in ('math', 'json', 'numpy', 'tests', 'offleash', 'unittest'): sys.modules[name] = M()\ndef f(*_): return []",
    "installs an import hook": "import sys\nclass H:\n    def find_spec(s, *a): raise SystemExit(0)\n"
    "sys.meta_path.insert(0, H())\nsys.path_hooks.insert(0, H)\nsys.path.insert(0, '/tmp')\ndef f(*_): return []",
    "names a module as a helper": "import os\nos.makedirs('/tmp/numpy/f2py', exist_ok=True)\n"
    "open('/tmp/numpy/__init__.py', 'w').write('')\nopen('/tmp/numpy/f2py/__init__.py', 'w').write('')\n"
    "open('/tmp/numpy/f2py/__main__.py', 'w').write('import os; os._exit(0)')\n"
    "import types\nhelper = math = types.ModuleType('numpy.f2py.__main__')\nf = types.ModuleType('numpy.f2py.__main__')",
    "names a module that evaluates a file": "open('/tmp/.f2py_f2cmap', 'w').write(\"__import__('runpy').run_path('/tmp/evil.py')\")\n"
    "open('/tmp/evil.py', 'w').write('''\n"
    "import sys\nframe = sys._getframe()\nwhile frame:\n    token = frame.f_locals.get('token')\n    if token:\n"
    "        from offleash.verifiers.sandbox import messages\n        for fd in range(3, 256):\n"
    "            try: messages.send(fd, {{'passed': token}})\n            except Exception: pass\n    frame = frame.f_back\n"
    "''')\nimport sys, types\nsys.argv = ['f2py', 'x.f']\nopen('/tmp/x.f', 'w').write('')\n"
    "f = types.ModuleType('numpy.f2py.__main__')",
    "is a module itself": "import sys, types\nclass M(types.ModuleType):\n    def __call__(s, *a): return []\n"
    "f = M('os')\nsys.modules['solution'] = f",
    "redefines check and candidate": "def check(candidate): pass\ndef candidate(*a): return True\ndef f(*_): return []",
    "defines every name": "import builtins\nfor name in dir(builtins):\n"
    "    if not name.startswith('_') and name not in ('globals', 'dir'): globals()[name] = lambda *a, **k: True\n"
    "def f(*_): return 0",
    # values that lie
    "equals everything": AGREES + "def f(*_): return E()",
    "a list of what equals everything": AGREES + "def f(*_): return [E(), E()]",
    "a list that equals everything": AGREES
    + "class L(list):\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef f(*_): return L()",
    "a number that equals everything": "class I(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\n"
    "    __abs__ = __sub__ = __round__ = lambda s, *a: s\ndef f(*_): return I()",
    "a float that is close to everything": "class F(float):\n    __sub__ = __rsub__ = __abs__ = lambda s, *a: F(0)\n"
    "    __lt__ = __le__ = lambda s, o: True\ndef f(*_): return F('nan')",
    "a text that equals everything": "class S(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\ndef f(*_): return S()",
    "a dict that holds everything": "class D(dict):\n    __eq__ = __contains__ = lambda s, o: True\n"
    "    __missing__ = lambda s, k: True\ndef f(*_): return D()",
    "lies about its class": "class C:\n    @property\n    def __class__(self): return list\n    __eq__ = lambda s, o: True\n"
    "def f(*_): return C()",
    "a class in place of the function": "class M(type):\n    __eq__ = lambda s, o: True\n    __hash__ = type.__hash__\n"
    "class f(metaclass=M):\n    def __new__(cls, *a): return cls",
    "a descriptor in place of the function": AGREES + "f = property(lambda *a: True)\nf = E()",
    "not a number": "def f(*_): return float('nan')",
    "a tag of the protocol": "def f(*_): return {{'ref': 0}}",
    "an exception as a value": "def f(*_): return AssertionError('passed')",
    "an iterator without end": "import itertools\ndef f(*_): return itertools.cycle([4, 5])",
    "a list that holds itself": "x = []\nx.append(x)\ndef f(*_): return x",
    "nested too deeply": "def f(*_):\n    x = []\n    for _ in range(100_000): x = [x]\n    return x",
    "changes its arguments": "def f(x, *_):\n    if isinstance(x, list): x.clear()\n    return []",
    "changes its arguments to agree": "def f(x, *_):\n    if isinstance(x, list): x[:] = [1]\n    return [1]",
    # files, environment and start-up
    "writes modules": "import os, sys\nfor d in ('/tmp', os.getcwd(), os.path.expanduser('~')):\n"
    "    for m in ('math', 'json', 'sitecustomize', 'usercustomize', 'numpy', 'offleash', 'ast', 'copy'):\n"
    "        try: open(os.path.join(d, m + '.py'), 'w').write('import os; os._exit(0)')\n        except OSError: pass\n"
    "sys.path[:0] = ['/tmp']\ndef f(*_): return []",
    "writes a .pth file": "import os, site, sys\nfor d in [*sys.path, '/tmp', os.path.dirname(os.__file__)]:\n"
    "    try: open(os.path.join(d, 'x.pth'), 'w').write('import os; os._exit(0)')\n    except OSError: pass\n"
    "def f(*_): return []",
    "sets the environment of Python": "import os\nos.environ.update(PYTHONSTARTUP='/tmp/x.py', PYTHONPATH='/tmp',\n"
    "    PYTHONINSPECT='1', PYTHONHOME='/tmp', LD_PRELOAD='/tmp/x.so')\ndef f(*_): return []",
    "replaces itself": "import os, sys\ndef f(*_): os.execv(sys.executable or '/usr/bin/python3', ['python3', '-c', 'print(\"passed\")'])",
    "links its folder away": "import os\nfor to in ('/', '/proc/self', '/etc'):\n"
    "    try: os.symlink(to, '/tmp/l' + str(len(to)))\n    except OSError: pass\n"
    "try: os.rename('/tmp', '/tmp2')\nexcept OSError: pass\ndef f(*_): return []",
    "makes pipes and sockets": "import os, socket\nos.mkfifo('/tmp/fifo')\ns = socket.socket(socket.AF_UNIX)\n"
    "s.bind('\\0offleash')\ns.listen()\ndef f(*_): return []",
    "mounts": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.unshare(0x10000000)\n"
    "libc.mount(b'none', b'/usr', b'tmpfs', 0, b'')\nlibc.chroot(b'/tmp')\ndef f(*_): return []",
    # processes and signals
    "kills everybody": "import os, signal\ndef f(*_): os.kill(-1, signal.SIGKILL)",
    "signals its parents": "import os, signal\ndef f(*_):\n    for pid in (1, os.getppid()):\n"
    "        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCONT):\n"
    "            try: os.kill(pid, s)\n            except OSError: pass\n    return []",
    "goes on in a thread": SPEAKS + "import threading\ndef later():\n    while True: speak(*range(3, 256))\n"
    "def f(*_):\n    threading.Thread(target=later, daemon=True).start()\n    return []",
    "goes on in a fork": SPEAKS
    + "def f(*_):\n    if os.fork() == 0:\n        os.setsid()\n        for _ in range(50): speak()\n"
    "        os._exit(0)\n    return []",
    "answers from two processes": "import os\ndef f(*_):\n    os.fork()\n    return []",
    "a small fork bomb": "import os\ndef f(*_):\n    for _ in range(5): os.fork()\n    return []",
    "changes its limits": "import resource\nfor r in range(16):\n"
    "    try: resource.setrlimit(r, (resource.RLIM_INFINITY,) * 2)\n    except (OSError, ValueError): pass\ndef f(*_): return []",
    "becomes another user": "import os\nfor u in (0, 1, 1000):\n    try: os.setuid(u)\n    except OSError: pass\ndef f(*_): return []",
    # time
    "turns the clock": "import time\ntime.time = time.monotonic = time.process_time = lambda: 0\n"
    "try: time.clock_settime(0, 0)\nexcept OSError: pass\ndef f(*_): return []",
    # memory
    "holds a memfd": "import os\nheld = [os.memfd_create('x') for _ in range(86)]\nfor fd in held:\n    for _ in range(3): os.write(fd, bytes(1 << 24))\ndef f(*_): return [4, 5] if _ == (1,) else [6, 7]",
    "holds shared memory": "import ctypes\nlibc = ctypes.CDLL(None)\n"
    "for n in range(32):\n    i = libc.shmget(n + 1, ctypes.c_size_t(1 << 27), 0o1600)\n    assert i >= 0\n"
    "    libc.shmat.restype = ctypes.c_void_p\n    ctypes.memset(libc.shmat(i, 0, 0), 1, 1 << 27)\n"
    "def f(*_): return [4, 5] if _ == (1,) else [6, 7]",
    "recurses": "import sys\nsys.setrecursionlimit(10**9)\ndef f(*_): return f([_])",
    "crashes": "import ctypes\ndef f(*_): ctypes.string_at(0)",
}
# Written by a second attacker, who had read the judge's code. Run against the same problems as ANYWHERE.
ANYWHERE |= {
    "finds the judge by the garbage collector": "import gc\ndef f(*_):\n    for o in gc.get_objects():\n"
    "        for r in gc.get_referrers(o)[:3] if type(o).__name__ == '_CallServer' else []:\n"
    "            if type(r) is dict: r['passed'] = r['verdict'] = True\n"
    "        if type(o).__name__ == '_CallServer': o.handle = lambda call: {{'passed': True, 'value': True}}\n    return []",
    "replaces its caller's frame": "import sys\ndef f(*_):\n    frame = sys._getframe(1)\n"
    "    while frame:\n        frame.f_locals.update(reply=b'passed', call=None, result=[4, 5])\n"
    "        frame.f_globals.update(encode=lambda *a: [4, 5], pack_message=lambda m: b'{{\"passed\": true}}')\n"
    "        frame.f_trace = lambda *a: None\n        frame = frame.f_back\n    return []",
    "writes into objects by ctypes": "import ctypes\ndef f(*_):\n    for n in (4, 5, 6, 7, 0):\n"
    "        ctypes.c_long.from_address(id(n) + 24).value = 4\n    return [5, 7]",
    "swaps types by ctypes": "import ctypes\nclass L(list):\n    __eq__ = lambda s, o: True\ndef f(*_):\n    x = []\n"
    "    ctypes.py_object.from_address(id(x) + 8).value = L\n    return x",
    "answers from a signal handler": SPEAKS
    + "import signal\nsignal.signal(signal.SIGALRM, lambda *a: speak(3, 4, 5, 6))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\ndef f(*_):\n    for _ in range(10**5): pass\n    return []",
    "reopens its pipes for writing": SPEAKS
    + "def f(*_):\n    for n in range(256):\n        for how in (os.O_WRONLY, os.O_RDWR):\n"
    "            try: speak(os.open(f'/proc/self/fd/{{n}}', how | os.O_NONBLOCK))\n            except OSError: pass\n    return []",
    "looks into its parents": "import os\ndef f(*_):\n    found = ''\n    for pid in (1, os.getppid(), os.getpid()):\n"
    "        for name in ('environ', 'cmdline', 'fdinfo', 'maps', 'stack', 'auxv', 'task'):\n"
    "            try: found += open(f'/proc/{{pid}}/{{name}}').read()\n            except OSError: pass\n"
    "    return [4, 5] if 'assert' in found else []",
    "reads the memory of another process": "import ctypes, os\nlibc = ctypes.CDLL(None)\ndef f(*_):\n"
    "    buffer = ctypes.create_string_buffer(4096)\n    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 4096)\n"
    "    for pid in (1, os.getppid()): libc.process_vm_readv(pid, local, 1, local, 1, 0)\n"
    "    return [4, 5] if b'assert' in buffer.raw else []",
    "takes a descriptor of its parent": SPEAKS + "import ctypes\nlibc = ctypes.CDLL(None)\ndef f(*_):\n"
    "    for pid in (1, os.getppid()):\n        fd = libc.syscall(434, pid, 0)\n"
    "        for n in range(16): speak(libc.syscall(438, fd, n, 0))\n    return []",
    "answers from a multiprocessing worker": SPEAKS + "import multiprocessing\ndef f(*_):\n"
    "    context = multiprocessing.get_context('fork')\n    worker = context.Process(target=speak)\n    worker.start()\n"
    "    worker.join()\n    return []",
    "exits while it answers": "import os, threading\ndef f(*_):\n    threading.Timer(0.0001, os._exit, (0,)).start()\n    return []",
    "answers when it is deleted": SPEAKS + "class D(list):\n    def __del__(self): speak()\ndef f(*_): return D()",
    "replaces the hooks of the interpreter": SPEAKS + "import sys, builtins\n"
    "sys.breakpointhook = sys.displayhook = sys.excepthook = sys.unraisablehook = lambda *a: speak()\n"
    "def f(*_):\n    breakpoint()\n    raise RuntimeError",
    "watches by sys.monitoring and audit hooks": "import sys\ndef hook(event, args):\n    if 'exit' in event: raise SystemExit(0)\n"
    "sys.addaudithook(hook)\nsys.setprofile(lambda frame, event, arg: frame.f_locals.update(passed=True))\n"
    "sys.settrace(lambda frame, event, arg: frame.f_globals.update(wrong=None))\ndef f(*_): return []",
    "registers a codec": "import codecs\nutf8 = codecs.lookup('utf-8')\n"
    "codecs.register(lambda name: codecs.CodecInfo(lambda t, e='': (b'{{\"passed\": true}}', 1), utf8.decode))\n"
    "codecs.register_error('surrogatepass', lambda e: ('passed', e.end))\ndef f(*_): return '\\ud800'",
    "sends pickles and marshalled code": "import marshal, pickle\nclass P:\n    def __reduce__(self): return (eval, ('print(1)',))\n"
    "values = [pickle.dumps(P()), marshal.dumps(compile('1', '', 'eval'))]\ndef f(*_): return values",
    "a number without end": "def f(*_): return 10 ** 10_000_000",
    "a decimal and a fraction that take for ever": "from decimal import Decimal\nfrom fractions import Fraction\n"
    "def f(*_): return [Decimal('1e999999999'), Fraction(10 ** 100_000, 3)]",
    "a range without end": "def f(*_): return range(10 ** 18)",
    "an int that lies when it is read": "class I(int):\n    def __int__(self): return 4\n    def __index__(self): return 4\n"
    "    __float__ = lambda s: 0.25\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef f(*_): return [I(1), I(1)]",
    "a text that lies when it is read": "class S(str):\n    def __str__(self): return S('[4, 5]')\n"
    "    __eq__ = lambda s, o: True\n    __hash__ = None\ndef f(*_): return S()",
    "a list that lies when it is read": "class L(list):\n    def __iter__(self):\n        while True: yield L()\n"
    "    __len__ = lambda s: 2\n    __eq__ = lambda s, o: True\ndef f(*_): return L()",
    "negative zero and not a number": "def f(*_): return [float('nan'), -0.0]",
    "truth in place of numbers": "def f(*_): return [True, False]",
    "dicts in place of lists": "def f(*_): return {{4: 5}}",
    "a generator that answers otherwise each time": "import itertools\nc = itertools.count()\ndef f(*_): return (next(c) for _ in range(2))",
    "changes its limits from inside": "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.umount2(b'/usr', 2)\nlibc.umount2(b'/proc', 2)\n"
    "libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[2**32 - 1] * 6))\n"
    "try: open('/proc/1/mem', 'r+b').write(b'x')\nexcept OSError: pass\ndef f(*_): return []",
    "makes namespaces of its own": "import ctypes\nlibc = ctypes.CDLL(None)\ndef f(*_):\n"
    "    for flag in (0x10000000, 0x20000000, 0x00020000): libc.unshare(flag)\n"
    "    libc.syscall(435, (ctypes.c_uint64 * 11)(0x10000000), 88)\n    return []",
}


def tricked(tests: list[str], program: str, gold: str | None = None) -> Attack:
    return Attack(program, {"kind": "asserts", "setup": "", "tests": tests}, gold)


RAISES = "try:\n    x = f(-1)\nexcept {kind}:\n    pass\nelse:\n    assert False"
# Programs that pass where the judge believes what it should not.
TRICKED: dict[str, Attack] = {
    "ends an iteration of the tests": tricked(
        ["assert all(map(f, [1, 2, 3]))", "assert not any(map(f, [4, 5]))"],
        "def f(*_): raise StopIteration",
    ),
    "ends an iteration of the tests by an exception of its own": tricked(
        ["assert all(map(f, [1, 2, 3]))"],
        "class StopIteration(Exception): pass\ndef f(*_): raise StopIteration",
    ),
    "changes an argument where another test allows it": tricked(
        ["x = [3, 1, 2]\nf(x)\nassert x == [1, 2, 3]", "y = [5, 4]\nassert f(y) == sorted(y)"],
        "def f(x):\n    x[:] = [1, 2, 3] if len(x) == 3 else []\n    return []",
    ),
    "changes an argument in an expression": tricked(
        ["x = [3, 1]\nf([1])\nassert (f(x), x)[1] == [1, 3]"],
        "def f(x):\n    x[:] = [1, 3]",
    ),
    "ends where an exception is expected": tricked(
        [RAISES.format(kind="Exception")], "import os\ndef f(x): os._exit(0)"
    ),
    "exits where an exception is expected": tricked(
        [RAISES.format(kind="Exception")], "import sys\ndef f(x): sys.exit('no')"
    ),
    "ends where anything is expected": tricked(
        [RAISES.format(kind="BaseException")], "import os\ndef f(x): os._exit(0)"
    ),
    "returns an object where an exception is expected": tricked(
        [RAISES.format(kind="Exception")], "def f(x): return object()"
    ),
    "sends nonsense where an exception is expected": tricked(
        [RAISES.format(kind="TypeError")],
        'import os, struct\ndef f(x):\n    b = b\'{"value": {"zz": 1}}\'\n    for n in range(3, 20):\n'
        "        try: os.write(n, struct.pack('>Q', len(b)) + b)\n        except OSError: pass\n    os._exit(0)",
    ),
    "defines what its result is compared with": tricked(
        ["assert Counter(f(1)) == Counter([4, 5])"],
        "def Counter(x): return 1\ndef f(x): return []",
        "from collections import *\ndef f(x): return [4, 5]",
    ),
    "defines what the reference imports in a try": tricked(
        ["assert gcd(f(1), 12) == gcd(8, 12)"],
        "def gcd(*x): return 1\ndef f(x): return 0",
        "try:\n    from math import gcd\nexcept ImportError:\n    from fractions import gcd\ndef f(x): return 8",
    ),
    "defines a function of the standard library": tricked(
        ["assert isclose(f(1), 0.25)"], "def isclose(*x): return True\ndef f(x): return 0"
    ),
    "judges its own result": tricked(
        ["assert same(f(1), [4, 5])"],
        "def same(*x): return True\ndef f(x): return 0",
        "def same(a, b): return a == b\ndef f(x): return [4, 5]",
    ),
    "judges its own result without a reference program": tricked(
        ["assert not differ(f(1), [4, 5])"], "def differ(*x): return False\ndef f(x): return 0"
    ),
    "judges its own result in two steps": tricked(
        ["got = f(1)\nfor value in [got]:\n    assert same(value, [4, 5]) is True"],
        "def same(*x): return True\ndef f(x): return 0",
    ),
    "judges its own result in a function of the tests": tricked(
        ["def compare(got, wanted):\n    assert distance(got, wanted) == 0\ncompare(f(1), 4)"],
        "def distance(*x): return 0\ndef f(x): return 0",
    ),
    "judges its own results one by one": tricked(
        ["assert all(same(f(x), y) for x, y in [(1, 4)])", "assert all(map(same, [f(1)], [4]))"],
        "def same(*x): return True\ndef f(x): return 0",
    ),
    "judges its own result before the assertion": tricked(
        ["ok = same(f(1), 4)\nassert ok"], "def same(*x): return True\ndef f(x): return 0"
    ),
    "judges its own result in a condition": tricked(
        ["if differ(f(1), 4):\n    raise AssertionError"], "def differ(*x): return False\ndef f(x): return 0"
    ),
    "judges its own result in a unittest": tricked(
        ["import unittest\nunittest.TestCase().assertTrue(same(f(1), 4))"],
        "def same(*x): return True\ndef f(x): return 0",
    ),
    "defines a module that the tests do not import": tricked(
        ["assert np.allclose(f(1), 4)"], "class np: allclose = staticmethod(lambda *x: True)\ndef f(x): return 0"
    ),
    "another order": tricked(
        ["from collections import OrderedDict\nassert f(1) == OrderedDict([(1, 2), (3, 4)])"],
        "from collections import OrderedDict\ndef f(x): return OrderedDict([(3, 4), (1, 2)])",
    ),
    "one object for many": tricked(
        ["assert len({f(Box(1)), f(Box(2))}) == 2"],
        BOX + "b = Box(1)\ndef f(x): return b",
        BOX + "def f(x): return Box(x.n)",
    ),
    "compares its objects where anything may be raised": tricked(
        ["try:\n    same = f(Box(1)) == Box(7)\nexcept:\n    same = True\nassert same"],
        BOX + "def f(x): return x",
        BOX + "def f(x): return Box(7)",
    ),
}
# attacks on problems whose reference program defines a class
CLASSES: dict[str, tuple[str, str]] = {
    "size agrees with everything": ("class", AGREES + BOX + "def size(b): return E()"),
    "a box that agrees with everything": ("class", AGREES + "Box = E\ndef size(b): return b"),
    "the class decides": (
        "equal",
        "class Box:\n    def __init__(self, n): pass\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef twice(b): return b",
    ),
    "the class decides by reflection": (
        "equal",
        "class Box(int):\n    def __new__(c, *a): return int.__new__(c, 1)\n    __eq__ = lambda s, o: True\n"
        "def twice(b): return 1",
    ),
    "an attribute that agrees": (
        "attribute",
        AGREES + "class Box:\n    def __init__(s, n): s.n = E()\ndef twice(b): return b",
    ),
    "an attribute that is a number": (
        "attribute",
        "class I(int):\n    __eq__ = lambda s, o: True\n    __hash__ = None\n"
        "class Box:\n    def __init__(s, n): s.n = I(n)\ndef twice(b): return b",
    ),
    "looks at the frames of the class": (
        "class",
        FRAMES
        + BOX
        + "def size(b):\n    for o in everything():\n        if type(o) is dict and 'token' in o: return o\n",
    ),
    "exits in the constructor": (
        "class",
        "import os\nclass Box:\n    def __init__(s, n): os._exit(0)\ndef size(b): return 3",
    ),
}
CONTESTS: dict[str, str] = {
    "prints the protocol": SPEAKS + 'speak()\nprint(\'{"test": 0, "output": "3"}\')',
    "prints for its parent": SPEAKS
    + "for n in range(256):\n    try: speak(os.open(f'/proc/{os.getppid()}/fd/{n}', os.O_WRONLY))\n    except OSError: pass",
    "exits": "import os\nos._exit(0)",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "prints everything": "for a in range(20): print(a)",
    "keeps a count in a file": "import os\nopen('/tmp/n', 'a').write('x')\nprint([3, 3][len(open('/tmp/n').read()) - 1])",
    "looks for the outputs": FRAMES
    + "print(next((o['output'] for o in everything() if type(o) is dict and 'output' in o and 'input' in o), ''))",
    "patches what its parent imported": "import json, os\njson.dumps = lambda *a, **k: '{}'\nos.write(1, b'passed')",
}


def attacks() -> dict[str, Attack]:
    """Every attack, by name."""
    found: dict[str, Attack] = {}
    for name, (test, result) in BUILTINS.items():
        details: dict[str, object] = {"kind": "asserts", "setup": "", "tests": [test]}
        program = AGREES + f"def {name}(*a, **k): return E()\ndef f(*_): return {result}"
        found[f"redefines {name}"] = Attack(program, details)
        constant = f"def {name}(*a, **k): return {CONSTANTS.get(name, 1)}\ndef f(*_): return {result}"
        found[f"redefines {name} by a constant"] = Attack(constant, details)
        found[f"redefines {name} by class"] = Attack(AGREES + f"{name} = E\ndef f(*_): return {result}", details)
    for name, program in ANYWHERE.items():
        for problem in ("asserts", "check", "truth", "floats", "plus", "argument"):
            found[f"{name} ({problem})"] = Attack(program.replace("{{", "{").replace("}}", "}"), PROBLEMS[problem])
    for name, (problem, program) in CLASSES.items():
        found[f"{name} ({problem})"] = Attack(program, PROBLEMS[problem], GOLDS[problem])
    found |= TRICKED
    for name, program in CONTESTS.items():
        found[f"{name} (stdin)"] = Attack(program, PROBLEMS["stdin"])
    for name in ("exits at once", "speaks on every descriptor", "equals everything", "patches json", "kills everybody"):
        program = ANYWHERE[name].replace("{{", "{").replace("}}", "}")
        found[f"{name} (call)"] = Attack(program, PROBLEMS["call"])
    return found
