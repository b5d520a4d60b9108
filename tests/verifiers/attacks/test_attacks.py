"""No attack of the corpus is judged correct; nothing escapes, and no process or file is left behind."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import interpreter, run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement
from tests.verifiers.attacks.corpus import ANYWHERE, BUILTINS, CLASSES, CONTESTS, PAIR, TRICKED, attacks
from tests.verifiers.sandbox.outside import children

ATTACKS = attacks()
VERIFIER = replace(VERIFIERS["program"], seconds=1.0)
# in every `make test`: each attack once, and those by builtins; all of them against all problems in `make test-attacks`
SHORT = [
    name
    for place, name in enumerate(ATTACKS)
    if name.startswith("redefines")
    or name in TRICKED
    or name.endswith(("(stdin)", "(call)", "(class)", "(equal)", "(attribute)"))
] + [f"{name} ({('asserts', 'argument', 'plus')[place % 3]})" for place, name in enumerate(ANYWHERE)]

pytestmark = pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)


def only(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by this isolation backend."""
    if why := run.unavailable_reason(backend):
        pytest.skip(f"{backend} is not to be had here: {why}")
    monkeypatch.setattr(run, "unavailable_reason", lambda other: "" if other == backend else "not in this test")


def files_outside() -> set[Path]:
    """Files where a program of ours could have left one, had it got out."""
    places = [Path(tempfile.gettempdir()), Path.cwd(), Path.home()]
    names = ("sitecustomize", "usercustomize", "x", "fifo", "n", "l1", "l4", "l10", "left")
    return {path for place in places for path in place.iterdir() if path.stem in names}


@pytest.fixture
def harmless() -> Iterator[None]:
    before, files = children(), files_outside()
    yield
    assert children() <= before, "no process is left"
    assert files_outside() <= files, "no file is left"


def judged(names: list[str], jobs: int = 2) -> dict[str, Judgement]:
    cases = [Case(ATTACKS[name].program, ATTACKS[name].gold, details=ATTACKS[name].details) for name in names]
    with Pool(jobs) as pool:
        return {names[index]: judgement for index, judgement in pool.judge(VERIFIER, cases)}


def forged(judgements: dict[str, Judgement]) -> dict[str, Judgement]:
    """Those that are correct; a failure must say why, and may only be one that the attack cannot profit from."""
    assert all(judgement.reason for judgement in judgements.values() if judgement.verdict is not Verdict.CORRECT)
    return {name: judgement for name, judgement in judgements.items() if judgement.verdict is Verdict.CORRECT}


def test_the_corpus_is_large() -> None:
    assert len(BUILTINS) + len(ANYWHERE) + len(CLASSES) + len(CONTESTS) >= 100


@pytest.mark.parametrize("part", range(4))
def test_no_attack_is_correct(part: int, harmless: None) -> None:
    assert not forged(judged(SHORT[part::4]))


@pytest.mark.attacks
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("backend", ["bwrap", "namespaces"])
def test_no_attack_on_any_problem_is_correct(
    backend: str, part: int, harmless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(backend, monkeypatch)
    assert not forged(judged(list(ATTACKS)[part::8]))


# The same problems, solved: what refuses the attacks must not refuse a right program.
SOLVED = {
    "asserts": "def f(x): return [2 * x + 2, 2 * x + 3]",
    "check": "def f(x): return [2 * x + 2, 2 * x + 3]",
    "truth": "def f(x): return x == 2",
    "floats": "def f(x): return x / 4",
    "plus": "def f(x): return sorted(x) if isinstance(x, list) else x + 0.5",
    "argument": "def f(x):\n    y = sorted(x)\n    x.clear()\n    return y",
    "class": "class Box:\n    def __init__(self, n): self.n = n\ndef size(b): return b.n",
    "attribute": "class Box:\n    def __init__(self, n): self.n = n\ndef twice(b): return Box(b.n * 2)",
    "stdin": "print(sum(map(int, input().split())))",
    "call": "def f(x): return [2 * x + 2, 2 * x + 3]",
}
# with the tests of TRICKED
SOLVED_IN_PLACE = {
    "ends an iteration of the tests": "def f(x): return x < 4",
    "changes an argument where another test allows it": "def f(x):\n    x.sort()\n    return list(x)",
}


@pytest.mark.parametrize("backend", ["bwrap", "namespaces"])
def test_right_programs_for_the_attacked_problems_are_correct(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.verifiers.attacks.corpus import GOLDS, PROBLEMS

    only(backend, monkeypatch)
    cases = [Case(program, GOLDS.get(name), details=PROBLEMS[name]) for name, program in SOLVED.items()]
    cases += [Case(program, details=ATTACKS[name].details) for name, program in SOLVED_IN_PLACE.items()]
    cases += [Case(f"def f(x): return {value}", details=details) for value, details in RIGHT_FOR_BUILTINS]
    with Pool(2) as pool:
        actual = dict(pool.judge(VERIFIER, cases))
    assert [(cases[n].answer, j.reason) for n, j in actual.items() if j.verdict is not Verdict.CORRECT] == []


RIGHT_VALUES = {"abs": "-7", "round": "0.25", "dict": "{'a': 1}", "int": "4.5", "float": "4", "print": "4", "bool": "2"}
RIGHT_FOR_BUILTINS = [
    (RIGHT_VALUES.get(name, "[4, 5]"), {"kind": "asserts", "setup": "", "tests": [test]})
    for name, (test, _) in BUILTINS.items()
]


def test_objects_that_only_their_class_can_compare_fail_with_the_reason() -> None:
    from tests.verifiers.attacks.corpus import GOLDS, PROBLEMS

    with Pool(1) as pool:
        ((_, judgement),) = pool.judge(VERIFIER, [Case(GOLDS["equal"], GOLDS["equal"], details=PROBLEMS["equal"])])
    assert judgement.verdict is Verdict.FAILED
    assert "compares" in judgement.reason
    assert not judgement.retry


def test_tests_that_never_call_the_program_fail() -> None:
    details: dict[str, object] = {"kind": "asserts", "setup": "", "tests": ["assert abs(-1) == 1"]}
    with Pool(1) as pool:
        ((_, judgement),) = pool.judge(VERIFIER, [Case("x = 1", details=details)])
    assert judgement == Judgement(
        Verdict.FAILED, "the problem's tests never call the program", seconds=judgement.seconds
    )


CAPABILITIES = """
def f():
    status = open('/proc/self/status').read().split()
    return [status[status.index(name) + 1] for name in ('CapPrm:', 'CapEff:', 'CapInh:', 'CapAmb:', 'NoNewPrivs:')]
"""


@pytest.mark.parametrize("as_owner", [False, True])
@pytest.mark.parametrize("backend", ["bwrap", "namespaces"])
def test_a_program_has_no_capability_in_its_own_user_namespace(
    backend: str, as_owner: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as_owner: the user namespace knows one user, as it does wherever the caller is not root
    only(backend, monkeypatch)
    monkeypatch.setitem(interpreter.VARIANTS, backend, interpreter.BackendVariant(as_owner))
    details: dict[str, object] = {"kind": "asserts", "tests": [f"assert f() == {['0' * 16] * 4 + ['1']}, f()"]}
    with Pool(1) as pool:
        ((_, judgement),) = pool.judge(VERIFIER, [Case(CAPABILITIES, details=details)])
    assert judgement == Judgement(Verdict.CORRECT, seconds=judgement.seconds)


def test_bubblewrap_whose_namespaces_cannot_be_joined_starts_a_supervisor_of_its_own(
    harmless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    only("bwrap", monkeypatch)
    monkeypatch.setitem(interpreter.VARIANTS, "bwrap", interpreter.BackendVariant(starts_python=True))
    cases = [Case(SOLVED["asserts"], details=PAIR), Case(ANYWHERE["kills everybody"], details=PAIR)]
    with Pool(2) as pool:
        actual = dict(pool.judge(VERIFIER, cases))
    assert [actual[place].verdict for place in range(2)] == [Verdict.CORRECT, Verdict.WRONG]


POISON = """
import os, sys, math, builtins, json, threading, random
for place in ('/tmp', os.getcwd(), os.path.expanduser('~')):
    open(os.path.join(place, 'left.py'), 'w').write('x = 1')
math.pi = builtins.left = json.left = 3
os.environ['LEFT'] = '1'
sys.path.insert(0, '/left')
if os.fork() == 0:
    os.setsid()
    import time, socket
    s = socket.socket(socket.AF_UNIX)
    s.bind('\\0left')
    s.listen()
    time.sleep(600)
def f(x): return x
"""
PROBE = """
import os, sys, math, builtins, json, socket
def f(x):
    # folders may lead to the interpreter, which is wherever the tests are
    left = [n for n in os.listdir('/tmp') if not os.path.isdir('/tmp/' + n)]
    left += [p for p in sys.path if p == '/left'] + [n for n in os.environ if n == 'LEFT']
    left += [hasattr(builtins, 'left') or hasattr(json, 'left') or math.pi == 3] * (math.pi == 3)
    left += [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 2]
    try:
        socket.socket(socket.AF_UNIX).connect('\\0left')
        left.append('socket')
    except OSError: pass
    return left
"""


@pytest.mark.parametrize("backend", ["bwrap", "namespaces"])
def test_a_program_leaves_nothing_for_the_next_one(
    backend: str, harmless: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(backend, monkeypatch)
    details: dict[str, object] = {"kind": "asserts", "setup": "", "tests": ["assert f(0) == 0"]}
    probe: dict[str, object] = {"kind": "asserts", "setup": "", "tests": ["assert f(0) == [], f(0)"]}
    cases = [Case(POISON, details=details), Case(PROBE, details=probe)] * 2
    with Pool(1) as pool:
        actual = dict(pool.judge(VERIFIER, cases))
    assert {judgement.reason for judgement in actual.values()} == {""}, actual
    assert "LEFT" not in os.environ
