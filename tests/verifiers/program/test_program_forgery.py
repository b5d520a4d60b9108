"""No program passes its tests without computing the answers."""

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.sandbox import run
from tests.verifiers.program.test_program import DETAILS, verdict

pytestmark = pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)

FORGERIES = {
    "exits": "import sys\nsys.exit(0)",
    "exits at once": "import os\nos._exit(0)",
    "raises SystemExit": "raise SystemExit",
    "exits when called": "def {name}(*_):\n    import os\n    os._exit(0)",
    "leaves when called": "def {name}(*_):\n    raise SystemExit(0)",
    "prints the marker": "print('passed', 'ok', True)\ndef {name}(*_):\n    print('passed')",
    "writes to every descriptor": (
        "import os\ndef {name}(*_):\n"
        "    for fd in range(256):\n"
        "        try: os.write(fd, b'\\0\\0\\0\\0\\0\\0\\0\\x10' + b'{{\"passed\": true}}')\n"
        "        except OSError: pass"
    ),
    "redefines check": "def check(candidate): pass\ndef {name}(*_): return None",
    "patches builtins": (
        "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {{}})\nbuiltins.len = lambda x: 0\n"
        "builtins.compile = lambda *a, **k: 'pass'\nbuiltins.exec = lambda *a, **k: None\n"
        "def {name}(*_): return None"
    ),
    "equals everything": (
        "class Any:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
        "    def __bool__(self): return True\n    def __hash__(self): return 0\ndef {name}(*_): return Any()"
    ),
    "a number that equals everything": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def {name}(*_): return Any()"
    ),
    "reads the stack": (
        "import sys\ndef {name}(*_):\n    frame = sys._getframe()\n    found = []\n"
        "    while frame:\n        found += [repr(v) for v in frame.f_locals.values()]\n        frame = frame.f_back\n"
        "    text = ' '.join(found)\n    return 6 if 'double(3)' in text else 3 if 'add(1, 2) == 3' in text else None"
    ),
    "reads the memory": (
        "import gc\ndef {name}(*_):\n"
        "    text = ' '.join(str(o) for o in gc.get_objects() if isinstance(o, (dict, list, tuple)))\n"
        "    return 6 if 'double(3)' in text else 3 if 'add(1, 2) == 3' in text else None"
    ),
    "replaces the tests' process": (
        "import os, signal\ndef {name}(*_):\n"
        "    for pid in range(2, 20):\n"
        "        if pid != os.getpid():\n"
        "            try: os.kill(pid, signal.SIGKILL)\n            except OSError: pass"
    ),
    "traces": (
        "import sys\nsys.settrace(lambda *a: None)\nsys.excepthook = lambda *a: None\ndef {name}(*_): return None"
    ),
}


@pytest.mark.parametrize("trick", FORGERIES)
@pytest.mark.parametrize(("kind", "name"), [("check", "total"), ("asserts", "add")])
def test_success_cannot_be_forged(kind: str, name: str, trick: str) -> None:
    assert verdict(DETAILS[kind], FORGERIES[trick].format(name=name)) is Verdict.WRONG


@pytest.mark.parametrize("trick", [name for name in FORGERIES if name.startswith(("exits at", "raises", "prints"))])
def test_contest_tests_cannot_be_passed_without_their_outputs(trick: str) -> None:
    assert verdict(DETAILS["stdin"], FORGERIES[trick].format(name="f")) is Verdict.WRONG
    assert verdict(DETAILS["call"], FORGERIES[trick].format(name="pair")) is Verdict.WRONG


def test_tests_that_need_the_programs_classes_cannot_be_passed_by_cheap_tricks() -> None:
    details: dict[str, object] = {
        "kind": "asserts",
        "setup": "",
        "tests": ["assert size(Box(3)) == 3", "assert len([1]) == 1"],
    }
    box = "class Box:\n    def __init__(self, n): self.n = n\n"
    right = box + "def size(b): return b.n"
    assert verdict(details, right, right) is Verdict.CORRECT
    assert verdict(details, right) is Verdict.WRONG  # without a reference that has the class, nothing runs beside tests
    for trick in ("exits when called", "leaves when called", "writes to every descriptor", "patches builtins"):
        assert verdict(details, box + FORGERIES[trick].format(name="size"), right) is Verdict.WRONG


EQUALS_ALL = "class f:\n    def __init__(self, *a): pass\n    def __eq__(self, other): return True\n"
STACK_WALK = """
import os, sys
frame = sys._getframe()
while frame:
    token = frame.f_locals.get("token")
    if token:
        from offleash.verifiers.sandbox import messages
        for fd in range(3, 256):
            try: messages.send(fd, {"passed": token})
            except Exception: pass
    frame = frame.f_back
class f: pass
"""
CHANGED_CLASS = """
import os, pickle, struct
BODY = (b"(S'returned'\\ncfractions\\nFraction\\n(N}S'__eq__'\\ncbuiltins\\nstr\\nstb0S'1'\\n]t.")
NEW = b"(S'returned'\\ncfractions\\nFraction\\n(S'1'\\ntR]t."
def f(*a):
    for body in (BODY, NEW) * 50:
        for fd in (200, 201, 202):
            try: os.write(fd, struct.pack(">Q", len(body)) + body)
            except OSError: pass
"""


@pytest.mark.parametrize("program", [EQUALS_ALL, STACK_WALK, CHANGED_CLASS])
def test_a_program_cannot_choose_to_run_beside_its_tests_or_change_their_classes(program: str) -> None:
    asserts: dict[str, object] = {"kind": "asserts", "setup": "", "tests": ["assert f(1) == 2", "assert f(5) == 6"]}
    check: dict[str, object] = {
        "kind": "check",
        "prompt": "def f(x):\n",
        "test": "def check(f):\n    assert f(1) == 2\n    assert f(5) == 6\n",
        "entry_point": "f",
    }
    assert verdict(asserts, program) is Verdict.WRONG
    assert verdict(check, program) is Verdict.WRONG
