"""Reference programs of every style pass their tests, and wrong programs do not."""

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case
from tests.verifiers.program.styles import ASSERTS, CHECKS, NODE

pytestmark = pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)


def cases() -> dict[str, tuple[Case, Verdict]]:
    """Every reference program and every wrong one, with its verdict."""
    out: dict[str, tuple[Case, Verdict]] = {}
    for name, style in ASSERTS.items():
        details: dict[str, object] = {"kind": "asserts", "setup": style.setup, "tests": style.tests}
        for place, program in enumerate([style.gold, *style.wrong]):
            expected = Verdict.WRONG if place else Verdict.CORRECT
            out[f"{name}, {place}"] = (Case(program, style.gold, details=details), expected)
    for name, (prompt, test, gold, wrong) in CHECKS.items():
        details = {"kind": "check", "prompt": prompt, "test": test, "entry_point": "f"}
        for place, program in enumerate([gold, *wrong]):
            expected = Verdict.WRONG if place else Verdict.CORRECT
            out[f"{name}, {place}"] = (Case(program, gold, details=details), expected)
    return out


def test_reference_programs_are_correct_and_wrong_ones_are_wrong() -> None:
    styled = cases()
    names = list(styled)
    with Pool(2) as pool:
        actual = dict(pool.judge(VERIFIERS["program"], [case for case, _ in styled.values()]))
    surprises = {
        names[place]: (judgement.verdict, judgement.reason)
        for place, judgement in actual.items()
        if judgement.verdict is not styled[names[place]][1]
    }
    assert surprises == {}
    assert len(styled) >= 100


# tests, reference program, and what the reason must name
UNJUDGED = [
    (["assert isinstance(made(), Node)"], NODE + "def made(): return Node(1)", "class Node"),
    (["assert type(made()) == Node"], NODE + "def made(): return Node(1)", "class Node"),
    (["assert vars(made()) == {'data': 1}"], NODE + "def made(): return Node(1)", "its own objects"),
    (["assert (made() + made()).data == 2"], NODE + "def made(): return Node(1)", "its own objects"),
    (["import copy\nassert copy.deepcopy(made()).data == 1"], NODE + "def made(): return Node(1)", "its own objects"),
    (
        ["try:\n    f()\nexcept Full:\n    pass"],
        "class Full(Exception): pass\ndef f(): raise Full",
        "an exception of the program's class Full",
    ),
    (["assert f() == undefined()"], "def f(): return 1", "undefined"),
    (["import no_such_module\nassert f() == 1"], "def f(): return 1", "not installed here: ModuleNotFoundError"),
    (["assert gone.x == f()"], "import gone\ndef f(): return 1", "gone"),
    (["assert np.isclose(f(), 1)"], "", "Import np in the problem's setup"),
    (["assert same(f(), 1)"], "def same(a, b): return a == b\ndef f(): return 1", "same decide about the result of f"),
]


def test_tests_that_cannot_be_judged_fail_with_the_reason() -> None:
    cases = [
        Case("def f(): return 1\n" + gold, gold, details={"kind": "asserts", "setup": "", "tests": tests})
        for tests, gold, _ in UNJUDGED
    ]
    with Pool(2) as pool:
        actual = dict(pool.judge(VERIFIERS["program"], cases))
    assert [actual[place].verdict for place in range(len(cases))] == [Verdict.FAILED] * len(cases)
    assert [actual[n].reason for n, (_, _, reason) in enumerate(UNJUDGED) if reason not in actual[n].reason] == []
