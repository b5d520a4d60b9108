"""The corpus of bombs: each within its limit, nothing harmed, no process left behind."""

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement, Verifier
from tests.verifiers.bombs import ENDLESS, PROGRAMS, SYMBOLIC, WAITING
from tests.verifiers.sandbox.outside import children, gone, listening

TESTS = {"kind": "stdin", "tests": [{"input": "", "output": "no program prints this\n"}]}
CALL = {"kind": "asserts", "setup": "", "tests": ["assert answer() == 42"]}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    before = children()
    with Pool(1) as made:
        yield made
    assert children() <= before


def timed(pool: Pool, verifier: Verifier, case: Case) -> tuple[Judgement, float]:
    started = time.monotonic()
    ((_, judgement),) = pool.judge(verifier, [case])
    return judgement, time.monotonic() - started


@pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)
@pytest.mark.parametrize("details", [TESTS, CALL], ids=["stdin", "asserts"])
@pytest.mark.parametrize(
    ("bomb", "seconds"),
    [
        *((bomb, 1.0 if bomb in ENDLESS else 2.0) for bomb in PROGRAMS),
        *(pytest.param(bomb, 9.0, marks=pytest.mark.slow) for bomb in PROGRAMS),  # as in a study
    ],
)
def test_a_program_bomb_is_wrong_and_harms_nothing(
    pool: Pool,
    bomb: str,
    details: dict[str, object],
    seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker = uuid4().hex
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    monkeypatch.setenv(marker, "a secret")
    with listening() as (port, calls):
        program = PROGRAMS[bomb]
        for name, value in (("secret", str(secret)), ("port", str(port)), ("marker", marker)):
            program = program.replace("{" + name + "}", value)
        verifier = replace(VERIFIERS["program"], seconds=seconds)
        judgement, taken = timed(pool, verifier, Case(program, details=details))
    # one that only waits uses no processor time: nothing says that it was not the machine that was too busy
    assert judgement.verdict is (Verdict.FAILED if bomb in WAITING else Verdict.WRONG), judgement
    assert judgement.retry is (bomb in WAITING)
    assert judgement.reason
    assert "a secret" not in judgement.reason
    assert taken < 40 * seconds + 60  # without a limit some would not end
    assert secret.read_text() == "a secret"
    assert not calls
    assert gone(marker, 0.0)


@pytest.mark.skipif(
    importlib.util.find_spec("offleash.verifiers.math.decide") is None
    or importlib.util.find_spec("math_verify") is None,
    reason="math-verify is not installed",
)
@pytest.mark.parametrize("number", range(len(SYMBOLIC)))
def test_a_symbolic_bomb_is_judged_within_its_limit(pool: Pool, number: int) -> None:
    list(pool.judge(VERIFIERS["math"], [Case("1", "1")]))  # a worker is warm, as in the middle of a study
    gold, text = SYMBOLIC[number]
    judgement, seconds = timed(pool, VERIFIERS["math"], Case(text, gold))
    assert judgement.verdict is not Verdict.CORRECT
    assert judgement.seconds <= VERIFIERS["math"].seconds
    assert seconds < 60
    assert judgement.verdict is not Verdict.FAILED or judgement.reason
