"""Where no sandbox can be built: what is said, and what --trust-code still gives."""

import sys
from dataclasses import replace
from uuid import uuid4

import pytest

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.sandbox.run import ProcessEnd, choose_backend, describe_isolation
from offleash.verifiers.verifier import Case
from tests.verifiers.program.test_program import DETAILS, RIGHT
from tests.verifiers.sandbox.outside import gone
from tests.verifiers.sandbox.test_sandbox import python, said

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


def test_a_machine_without_isolation_learns_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    why = {"bwrap": "it is not installed", "namespaces": "unshare: Operation not permitted (errno 1)"}
    monkeypatch.setattr(run, "unavailable_reason", lambda backend: why[backend])
    with pytest.raises(OffleashError) as caught:
        choose_backend(trust_code=False)
    for words in (*why.values(), "the network", "files", "environment", "--trust-code", "time and memory only"):
        assert words in str(caught.value)
    assert choose_backend(trust_code=True) == "trusted"
    assert "can reach the network" in describe_isolation(trust_code=True)


def test_trusted_code_runs_under_limits_and_leaves_no_process() -> None:
    assert said("trusted", "print(6 * 7)") == "42"
    assert python("trusted", "while True: pass", seconds=1.0).ended is ProcessEnd.TIME
    script = "try: bytearray(1 << 30)\nexcept MemoryError: print('refused')"
    assert python("trusted", script, memory=1 << 29).output == b"refused\n"
    marker = uuid4().hex
    script = f"""
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv('/bin/sh', ['sh', '-c', 'sleep 60; echo {marker}'])
    os._exit(0)
"""
    python("trusted", script)
    assert gone(marker, 1.0)


def test_trusted_code_gets_no_environment_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_SECRET", "a secret")
    assert "SECRET" not in said("trusted", "import os\nprint(dict(os.environ))")


@pytest.mark.slow
def test_trusted_programs_are_judged_like_isolated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "unavailable_reason", lambda _: "not to be had")
    verifier = replace(VERIFIERS["program"], seconds=3.0)
    with Pool(2, trust_code=True) as pool:
        for kind, details in DETAILS.items():
            answers = [RIGHT[kind], "import sys\nsys.exit(0)", "while True: pass"]
            actual = dict(pool.judge(verifier, [Case(answer, details=details) for answer in answers]))
            assert [actual[index].verdict for index in range(3)] == [Verdict.CORRECT, Verdict.WRONG, Verdict.WRONG]
            assert "time limit" in actual[2].reason
