"""Workers live as long as they are wanted and no longer: warm between calls, replaced, ended with their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Isolation, Judgement
from tests.places import ROOT
from tests.verifiers.sandbox.outside import children, crowded, processes_with
from tests.verifiers.sandbox.test_pool import ISOLATIONS, judged, pool
from tests.verifiers.troublesome import troublesome

__all__ = ["pool"]  # the fixture


def test_workers_stay_warm_from_one_call_to_the_next(pool: Pool) -> None:
    patient = troublesome(seconds=30.0)  # a worker that has used half its time gets a successor
    judged(pool, patient, [Case("a")])
    before = children()
    judged(pool, patient, [Case("a")] * 50)
    assert before & children()


def test_workers_of_a_process_that_holds_much_memory_stay_warm_too() -> None:
    ballast = bytearray(700 << 20)  # more than half of what a worker may hold
    with Pool(1) as pool:
        result = judged(pool, troublesome(seconds=30.0), [Case("leave_behind 1"), Case("left")])
    assert result[-1].reason == "1"
    assert ballast


def test_a_worker_that_died_while_idle_is_replaced_and_costs_no_case() -> None:
    with Pool(1) as pool:
        before = children()
        judged(pool, troublesome(), [Case("a")])
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        (actual,) = judged(pool, troublesome(), [Case("fine", "fine")])
    assert actual.verdict is Verdict.CORRECT


def test_a_worker_is_replaced_after_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offleash.verifiers.sandbox.worker_handle.MAX_CASES", 3)
    with Pool(1) as pool:
        result = judged(pool, troublesome(seconds=30.0), [Case(f"leave_behind {n}") for n in range(7)] + [Case("left")])
    assert result[-1].reason == "6"


def test_judging_can_be_given_up_half_way(pool: Pool) -> None:
    answers = pool.judge(troublesome(seconds=900.0), [Case("a", "a"), Case("sleep 600"), Case("sleep 600"), Case("a")])
    assert next(answers)[0] == 0
    answers.close()  # type: ignore[attr-defined]
    started = time.monotonic()
    (actual,) = judged(pool, troublesome(seconds=30.0), [Case("a", "a")])
    assert actual.verdict is Verdict.CORRECT
    assert time.monotonic() - started < 300


def test_the_limit_holds_when_the_caller_looks_late(pool: Pool) -> None:
    answers = pool.judge(troublesome(seconds=0.5), [Case("a"), Case("burn 1"), Case("sleep 0.3")])
    actual = dict([next(answers)])
    time.sleep(2.0)
    actual |= dict(answers)
    assert actual[1].verdict is Verdict.FAILED
    assert actual[2].verdict is Verdict.WRONG


@pytest.mark.attacks  # a crowd of busy processes takes long
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_busy_machine_takes_no_time_from_a_case(pool: Pool, isolation: Isolation) -> None:
    """Beside four busy processes a case takes five times its processor time on the clock."""
    with crowded():
        short, long = judged(pool, troublesome(isolation, seconds=1.0), [Case("burn 0.6"), Case("burn 3")])
    assert short.verdict is Verdict.WRONG
    assert long.reason == "time limit of 1 s"


def test_two_threads_may_each_have_a_pool_and_one_pool_may_move_between_threads() -> None:
    collected: dict[str, list[Judgement]] = {}
    cases = [Case("a", "a"), Case("hang"), Case("b", "a")]

    def work(name: str, pool: Pool) -> None:
        collected[name] = judged(pool, troublesome(), cases)

    with Pool(1) as first, Pool(1) as two:
        for turn in range(2):  # the thread that started the workers has ended by the second turn
            threads = [threading.Thread(target=work, args=(f"{n}{turn}", pool)) for n, pool in enumerate((first, two))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert {tuple(judgement.verdict for judgement in each) for each in collected.values()} == {
        (Verdict.CORRECT, Verdict.FAILED, Verdict.WRONG)
    }
    assert len(collected) == 4


KILLED = """
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Isolation
from tests.verifiers.troublesome import troublesome
print("started", flush=True)
with Pool(2) as pool:
    verifier = troublesome(Isolation.{isolation}, seconds=60.0)
    for index, judgement in pool.judge(verifier, [Case("a")] + [Case("{word}")] * 3):
        print("judging", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_workers_end_with_their_parent_even_in_the_middle_of_a_multiplication(isolation: Isolation, how: int) -> None:
    script = KILLED.format(isolation=isolation.name, word="multiply")
    root = ROOT
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        while b"judging" not in (line := parent.stdout.readline()):
            assert line, parent.stderr.read()
        time.sleep(0.5)
        started = children(parent.pid)
        assert started
        parent.send_signal(how)
        parent.wait(60)
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert not [pid for pid in processes_with("tests.verifiers.troublesome") if pid in started]


def test_a_script_without_a_main_guard_can_judge(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from offleash.verifiers.sandbox.pool import Pool\n"
        "from offleash.verifiers.verifier import Case\n"
        "from tests.verifiers.troublesome import troublesome\n"
        "with Pool(2) as pool:\n"
        "    print(sorted(i for i, _ in pool.judge(troublesome(), [Case('a')] * 3)))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, check=False)
    assert done.stdout == b"[0, 1, 2]\n", done.stderr
