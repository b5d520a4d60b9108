"""The `program` verifier: every answer, model-written Python, runs in a fresh sandbox against the problem's tests.

The problem's details say how (`kind`):
* `check` (HumanEval): `prompt`, `test`, `entry_point`; the answer completes the prompt or is the whole function;
* `asserts` (MBPP): `setup`, `tests`, a list of assertions;
* `stdin` (contests): `tests` of `input` and `output`, compared by `same_output`; `partial`: lines to be continued;
* `call` (contests): `entry_point` and `tests` of `input` (JSON arguments, one per line) and `output` (JSON).
`private` holds more tests of the last two, as LiveCodeBench stores them.

A program that exceeds a limit of processor time, memory or output has failed its tests and is wrong; `failed` is for
what says nothing about it: the sandbox did not start, the machine gave it no processor time, or the tests cannot be
judged. A program cannot pass by exiting, printing or changing builtins: expected outputs of `stdin` and `call` never
enter its sandbox, and assertions run in another one (assertions.py).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.program.unpickle import private_tests
from offleash.verifiers.sandbox.messages import GarbledError, packed, taken
from offleash.verifiers.sandbox.run import (
    BROKEN,
    POLICY,
    CompletedCommand,
    Launcher,
    ProcessEnd,
    SandboxedProcess,
    SandboxPolicy,
    chosen_route,
    preloaded,
    run,
)
from offleash.verifiers.verifier import Case, Judgement

ENDED = "the program ended"  # in what the tests' process says about a program that is gone
# kind of test -> details that must be texts
FIELDS = {"check": ("prompt", "test", "entry_point"), "asserts": (), "stdin": (), "call": ("entry_point",)}


def decide(case: Case) -> Judgement:
    """Run the answer against the problem's tests."""
    if unusable := readable(case):
        return Judgement(Verdict.FAILED, unusable)
    if not case.answer.strip():
        return Judgement(Verdict.WRONG, "there is no code")
    policy = POLICY.get()
    session = _Session(case, policy)
    if policy.launcher is not None:
        return session.run(policy.launcher)
    with Launcher() as launcher:
        return session.run(launcher)


def readable(case: Case) -> str:
    """Why the problem's tests cannot be used; "" when they can."""
    kind = case.details.get("kind")
    if not isinstance(kind, str) or kind not in FIELDS:
        return f"the problem's kind of test is {kind!r}, not one of {', '.join(FIELDS)}"
    for name in FIELDS[kind]:
        value = case.details.get(name)
        if not isinstance(value, str) or (name == "entry_point" and not value.strip()):
            return f"the problem's {name} is {str(value)[:60]!r}, not text"
    if kind == "check":
        return "" if "check" in str(case.details["test"]) else "the problem's test does not define check"
    try:
        tests = _tests(case.details)
    except OffleashError as error:
        return str(error)
    if not tests:
        return "the problem has no tests"
    if kind == "asserts":
        return "" if all(isinstance(test, str) for test in tests) else "one of the problem's assertions is not text"
    for number, test in enumerate(tests, 1):
        if not isinstance(test, dict) or not all(isinstance(test.get(key), str) for key in ("input", "output")):
            return f"test {number} of the problem lacks input or output"
        if kind == "call" and (json_error := _not_json(test["input"], test["output"])):
            return f"test {number} of the problem: {json_error}"
    return ""


def _tests(details: Mapping[str, object]) -> list[object]:
    tests = details.get("tests")
    private = details.get("private")
    more = _decoded(private) if isinstance(private, str) and private.strip() else []
    return [*(tests if isinstance(tests, list | tuple) else []), *more]


@lru_cache(maxsize=4)
def _decoded(private: str) -> list[dict[str, str]]:
    """Private tests are megabytes and the same for every answer to a problem."""
    return private_tests(private)


@lru_cache(maxsize=4096)
def _not_json(given: str, expected: str) -> str:
    for text in (*given.split("\n"), expected):
        try:
            if text.strip():
                json.loads(text)
        except ValueError:
            return f"{text[:60]!r} is not JSON"
    return ""


class _Session:
    """One case in the sandbox: what is sent, and the verdict that follows from the messages that come back.

    Messages come from a process that the program cannot write to; still, none is believed without a check. For
    assertions that process is in another sandbox than the program; otherwise correct takes an output for every test
    that equals the expected one, which never leaves here.
    """

    def __init__(self, case: Case, policy: SandboxPolicy) -> None:
        self._case, self._policy = case, policy
        self._kind = str(case.details["kind"])
        self._inbox = bytearray()
        self._ready = False
        self._passed: set[int] = set()
        self._verdict: Judgement | None = None
        tests = _tests(case.details) if self._kind != "check" else []
        self._asserts = [str(test) for test in tests] if self._kind == "asserts" else []
        self._io: list[dict[str, str]] = [dict(test) for test in tests if isinstance(test, dict)]
        self._expected = [test["output"] for test in self._io]
        # bytes of output per test: sixteen times the longest expected one leaves room for a chatty program, and a
        # program that prints for ever is stopped
        self._most = 16 * max((len(text.encode("utf-8", "replace")) for text in self._expected), default=0) + (64 << 10)
        self._limits = replace(policy.limits, output=self._most * (len(self._expected) + 1) + (1 << 20))
        self._route = chosen_route(policy.trust_code)

    def run(self, launcher: Launcher) -> Judgement:
        """Run the program against its tests."""
        if self._kind not in ("check", "asserts"):
            command = preloaded("offleash.verifiers.program.runner", "shared" if self._route == "trusted" else "alone")
            return self._judgement(self._run(command, launcher))
        calls_out, calls_in = os.pipe()
        answers_out, answers_in = os.pipe()
        try:
            program = SandboxedProcess(
                preloaded("offleash.verifiers.program.calls"),
                self._limits,
                route=self._route,
                launcher=launcher,
                pipes=(calls_out, answers_in),
            )
        except BaseException:
            os.close(calls_in)
            os.close(answers_out)
            raise
        with program:
            command = preloaded("offleash.verifiers.program.assertions")
            judgement = self._judgement(self._run(command, launcher, (calls_in, answers_out), [program]))
            if judgement.verdict is Verdict.WRONG and ENDED in judgement.reason:
                # it was ended for a broken limit, which the tests' process cannot know
                ended = BROKEN.get(program.wait(10.0))
                judgement = replace(judgement, reason=self._reason(ended)) if ended else judgement
            return judgement

    def _run(
        self, command: list[str], launcher: Launcher, given: Sequence[int] = (), beside: Sequence[SandboxedProcess] = ()
    ) -> CompletedCommand:
        return run(
            command,
            self._limits,
            stdin=packed(self._job()),
            route=self._route,
            launcher=launcher,
            given=given,
            beside=beside,
            watch=self._hear,
            stopped=self._policy.stopped,
        )

    def _job(self) -> dict[str, object]:
        """The message to the process in the sandbox: the program, and its inputs or its tests."""
        details = self._case.details
        texts = ("prompt", "entry_point", "partial", "setup", "test")
        job: dict[str, object] = {name: str(details.get(name) or "") for name in texts}
        job |= {"kind": self._kind, "answer": self._case.answer, "most": self._most}
        job |= {"inputs": [test["input"] for test in self._io], "tests": self._asserts}
        return job | {"gold": self._case.gold or ""}

    def _hear(self, chunk: bytes) -> bool:
        """Take in what the runner says; whether the verdict is clear."""
        self._inbox += chunk
        try:
            while self._verdict is None and (message := taken(self._inbox)) is not None:
                self._take(message if isinstance(message, dict) else {})
        except GarbledError as error:
            self._verdict = Judgement(Verdict.WRONG, f"the program's answer cannot be read: {error}")
        return self._verdict is not None

    def _judgement(self, finished: CompletedCommand) -> Judgement:
        """The verdict, once the sandbox has ended."""
        if finished.ended is ProcessEnd.STOPPED:
            return Judgement(Verdict.FAILED, finished.ended.value)
        if self._verdict is not None:
            return self._verdict
        if finished.ended is ProcessEnd.WALL:
            return Judgement(Verdict.FAILED, finished.limit, retry=True)
        if not self._ready:
            error_text = finished.errors or finished.ended.value
            return Judgement(Verdict.FAILED, f"the sandbox did not start: {error_text}")
        return Judgement(Verdict.WRONG, self._reason(finished.ended))

    def _reason(self, ended: ProcessEnd) -> str:
        limits = self._limits
        reasons = {
            ProcessEnd.TIME: f"time limit of {limits.seconds:g} s",
            ProcessEnd.MEMORY: f"memory limit of {limits.memory / 2**30:.3g} GiB",
            ProcessEnd.PROCESSES: f"limit of {limits.processes} processes",
            ProcessEnd.DISK: f"limit of {limits.disk >> 20} MiB of disk space",
        }
        return reasons.get(ended, "the program ended the run before its tests had")

    def _take(self, message: dict[str, object]) -> None:
        """Act on one message; the first that settles the verdict wins, so later ones cannot take it back."""
        if not self._ready:
            self._ready = message.get("ready") is True
        elif "wrong" in message:
            self._verdict = Judgement(Verdict.WRONG, str(message["wrong"])[:400])
        elif "failed" in message:
            self._verdict = Judgement(Verdict.FAILED, str(message["failed"])[:400])
        elif message.get("passed") is True and self._kind in ("check", "asserts"):
            self._verdict = Judgement(Verdict.CORRECT)
        elif "test" in message:
            self._compare(message)
        elif "end" in message:
            self._verdict = Judgement(Verdict.WRONG, "the program ended before its tests had")

    def _compare(self, message: dict[str, object]) -> None:
        """The output or result of one test against the expected one; correct once every test has passed."""
        index = message["test"]
        if not isinstance(index, int) or not 0 <= index < len(self._expected):
            return
        name = f"test {index + 1} of {len(self._expected)}"
        expected = self._expected[index]
        if message.get("trouble"):
            self._verdict = Judgement(Verdict.WRONG, f"{name}: {str(message['trouble'])[:300]}")
        elif self._kind == "stdin" and not same_output(str(message.get("output", "")), expected):
            self._verdict = Judgement(Verdict.WRONG, f"{name}: printed {_shown(message.get('output'))}")
        elif self._kind == "call" and not same_value(message.get("result"), json.loads(expected)):
            self._verdict = Judgement(Verdict.WRONG, f"{name}: returned {_shown(message.get('result'))}")
        self._passed.add(index)
        if self._verdict is None and len(self._passed) == len(self._expected):
            self._verdict = Judgement(Verdict.CORRECT)


def _shown(value: object) -> str:
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= 80 else text[:77] + "...")


# Printed or returned values against expected ones, by LiveCodeBench's rules (arXiv:2403.07974).
#
# Printed: white space around the whole and around each line does not count; the number of lines must agree; a line
# agrees when it is the same text, or when both are numbers, token by token, of exactly the same decimal values (`1.0`
# and `1`, not `0.33` and `0.333`). Returned: equal as JSON, a tuple being a list; no tolerance for floats.


def same_output(printed: str, expected: str) -> bool:
    """Whether a program printed what was expected."""
    ours, theirs = _lines(printed), _lines(expected)
    return len(ours) == len(theirs) and all(_same_line(a, b) for a, b in zip(ours, theirs, strict=True))


def same_value(returned: object, expected: object) -> bool:
    """Whether a function returned what was expected."""
    try:
        return bool(returned == expected)
    except RecursionError:
        return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    a, b = ours.split(), theirs.split()
    if len(a) != len(b):
        return False
    try:
        return [Decimal(token) for token in a] == [Decimal(token) for token in b]
    except InvalidOperation:
        return False
