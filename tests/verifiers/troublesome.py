"""A verifier that does to its process whatever the answer says: what the pool must survive."""

import ctypes
import os
import signal
import subprocess
import sys
import time

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Isolation, Judgement, Verifier

STATE: list[str] = []  # what one case leaves behind for the next


def troublesome(isolation: Isolation = Isolation.WORKER, seconds: float = 1.0, memory: int = 1 << 30) -> Verifier:
    return Verifier("troublesome", "1", (), "tests.verifiers.troublesome", isolation, seconds, memory)


def readable(case: Case) -> str:
    return ""


def decide(case: Case) -> Judgement:
    word, _, rest = case.answer.partition(" ")
    if word == "hang":
        while True:
            pass
    if word == "multiply":  # holds the interpreter: no thread and no handler of Python's gets a turn
        return Judgement(Verdict.WRONG, str((3**80_000_000) ** 50 % 7))
    if word == "sleep":
        time.sleep(float(rest))
    if word == "burn":
        end = time.process_time() + float(rest)
        while time.process_time() < end:
            pass
    if word == "grab":
        return Judgement(Verdict.WRONG, str(len(bytearray(8 << 30))))
    if word == "recurse":
        return decide(Case("recurse " + rest))
    if word == "raise":
        raise ValueError(rest)
    if word == "leave":
        sys.exit(0)
    if word == "vanish":
        os._exit(int(rest or 0))
    if word == "crash":
        ctypes.string_at(0)
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "print":
        print("noise", flush=True)
        os.write(1, b"noise")
        os.write(2, b"noise")
        sys.stdin.read()
    if word == "scribble":
        for fd in range(3, 30):
            try:
                os.write(fd, b"\x00" * 7 + b"\x02{}")
            except OSError:
                continue
    if word == "child":
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(60)  # {rest}"])
        time.sleep(60)
    if word == "nonsense":
        return "no judgement"  # type: ignore[return-value]
    if word == "leave_behind":
        STATE.append(rest)
    if word == "left":
        return Judgement(Verdict.CORRECT, ",".join(STATE))
    if word == "read":
        try:
            with open(rest) as file:  # noqa: PTH123
                return Judgement(Verdict.CORRECT, file.read())
        except OSError as trouble:
            return Judgement(Verdict.WRONG, type(trouble).__name__)
    if word == "variable":
        return Judgement(Verdict.CORRECT, os.environ.get(rest, "absent"))
    if word == "echo":
        return Judgement(Verdict.CORRECT, solution=rest)
    verdict = Verdict.CORRECT if case.answer == case.gold else Verdict.WRONG
    return Judgement(verdict, score=len(case.answer), solution=str(case.details.get("note")))
