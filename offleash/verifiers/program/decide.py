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
from offleash.verifiers.sandbox.messages import MalformedMessageError, pack_message, take_message
from offleash.verifiers.sandbox.run import (
    LIMIT_OF_EXIT_CODE,
    POLICY,
    CompletedCommand,
    Launcher,
    ProcessEnd,
    SandboxedProcess,
    SandboxPolicy,
    choose_backend,
    preloaded_command,
    run,
)
from offleash.verifiers.verifier import Case, Judgement

PROGRAM_ENDED = "the program exited"  # in what the tests' process says about a program that is gone
# kind of test -> details that must be texts
REQUIRED_FIELDS = {"check": ("prompt", "test", "entry_point"), "asserts": (), "stdin": (), "call": ("entry_point",)}


def decide(case: Case) -> Judgement:
    """Run the answer against the problem's tests."""
    if unusable := readable(case):
        return Judgement(Verdict.FAILED, unusable)
    if not case.answer.strip():
        return Judgement(Verdict.WRONG, "there is no code")
    policy = POLICY.get()
    program_run = _ProgramRun(case, policy)
    if policy.launcher is not None:
        return program_run.run(policy.launcher)
    with Launcher() as launcher:
        return program_run.run(launcher)


def readable(case: Case) -> str:
    """Why the problem's tests cannot be used; "" when they can."""
    kind = case.details.get("kind")
    if not isinstance(kind, str) or kind not in REQUIRED_FIELDS:
        return f"the problem's kind of test is {kind!r}, not one of {', '.join(REQUIRED_FIELDS)}"
    for name in REQUIRED_FIELDS[kind]:
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
        if kind == "call" and (json_error := _json_error(test["input"], test["output"])):
            return f"test {number} of the problem: {json_error}"
    return ""


def _tests(details: Mapping[str, object]) -> list[object]:
    tests = details.get("tests")
    private = details.get("private")
    private_tests = _decode_private_tests(private) if isinstance(private, str) and private.strip() else []
    return [*(tests if isinstance(tests, list | tuple) else []), *private_tests]


@lru_cache(maxsize=4)
def _decode_private_tests(encoded_tests: str) -> list[dict[str, str]]:
    """Private tests are megabytes and the same for every answer to a problem."""
    return private_tests(encoded_tests)


@lru_cache(maxsize=4096)
def _json_error(arguments: str, expected: str) -> str:
    for text in (*arguments.split("\n"), expected):
        try:
            if text.strip():
                json.loads(text)
        except ValueError:
            return f"{text[:60]!r} is not JSON"
    return ""


class _ProgramRun:
    """One case in the sandbox: what is sent, and the verdict that follows from the messages that come back.

    Messages come from a process that the program cannot write to; still, none is believed without a check. For
    assertions that process is in another sandbox than the program; otherwise correct takes an output for every test
    that equals the expected one, which never leaves here.
    """

    def __init__(self, case: Case, policy: SandboxPolicy) -> None:
        self._case, self._policy = case, policy
        self._kind = str(case.details["kind"])
        self._buffer = bytearray()
        self._ready = False
        self._passed_cases: set[int] = set()
        self._verdict: Judgement | None = None
        tests = _tests(case.details) if self._kind != "check" else []
        self._assertions = [str(test) for test in tests] if self._kind == "asserts" else []
        self._io_tests: list[dict[str, str]] = [dict(test) for test in tests if isinstance(test, dict)]
        self._expected = [test["output"] for test in self._io_tests]
        # bytes of output per test: sixteen times the longest expected one leaves room for a chatty program, and a
        # program that prints for ever is stopped
        self._max_output = 16 * max((len(text.encode("utf-8", "replace")) for text in self._expected), default=0) + (
            64 << 10
        )
        self._limits = replace(policy.limits, output=self._max_output * (len(self._expected) + 1) + (1 << 20))
        self._backend = choose_backend(policy.trust_code)

    def run(self, launcher: Launcher) -> Judgement:
        """Run the program against its tests."""
        if self._kind not in ("check", "asserts"):
            command = preloaded_command(
                "offleash.verifiers.program.runner", "shared" if self._backend == "trusted" else "alone"
            )
            return self._judgement(self._run(command, launcher))
        calls_read, calls_write = os.pipe()
        replies_read, replies_write = os.pipe()
        try:
            program = SandboxedProcess(
                preloaded_command("offleash.verifiers.program.calls"),
                self._limits,
                backend=self._backend,
                launcher=launcher,
                pipes=(calls_read, replies_write),
            )
        except BaseException:
            os.close(calls_write)
            os.close(replies_read)
            raise
        with program:
            command = preloaded_command("offleash.verifiers.program.assertions")
            judgement = self._judgement(self._run(command, launcher, (calls_write, replies_read), [program]))
            if judgement.verdict is Verdict.WRONG and PROGRAM_ENDED in judgement.reason:
                # it was ended for a broken limit, which the tests' process cannot know
                ended = LIMIT_OF_EXIT_CODE.get(program.wait(10.0))
                judgement = replace(judgement, reason=self._reason(ended)) if ended else judgement
            return judgement

    def _run(
        self,
        command: list[str],
        launcher: Launcher,
        extra_fds: Sequence[int] = (),
        companions: Sequence[SandboxedProcess] = (),
    ) -> CompletedCommand:
        return run(
            command,
            self._limits,
            stdin=pack_message(self._job()),
            backend=self._backend,
            launcher=launcher,
            extra_fds=extra_fds,
            companions=companions,
            on_output=self._on_output,
            stopped=self._policy.stopped,
        )

    def _job(self) -> dict[str, object]:
        """The message to the process in the sandbox: the program, and its inputs or its tests."""
        details = self._case.details
        texts = ("prompt", "entry_point", "partial", "setup", "test")
        job: dict[str, object] = {name: str(details.get(name) or "") for name in texts}
        job |= {"kind": self._kind, "answer": self._case.answer, "max_output": self._max_output}
        job |= {"inputs": [test["input"] for test in self._io_tests], "tests": self._assertions}
        return job | {"gold": self._case.gold or ""}

    def _on_output(self, chunk: bytes) -> bool:
        """Take in what the runner says; whether the verdict is clear."""
        self._buffer += chunk
        try:
            while self._verdict is None and (message := take_message(self._buffer)) is not None:
                self._on_message(message if isinstance(message, dict) else {})
        except MalformedMessageError as error:
            self._verdict = Judgement(Verdict.WRONG, f"the program's answer cannot be read: {error}")
        return self._verdict is not None

    def _judgement(self, completed: CompletedCommand) -> Judgement:
        """The verdict, once the sandbox has ended."""
        if completed.ended is ProcessEnd.STOPPED:
            return Judgement(Verdict.FAILED, completed.ended.value)
        if self._verdict is not None:
            return self._verdict
        if completed.ended is ProcessEnd.WALL:
            return Judgement(Verdict.FAILED, completed.limit, retry=True)
        if not self._ready:
            error_text = completed.errors or completed.ended.value
            return Judgement(Verdict.FAILED, f"the sandbox did not start: {error_text}")
        return Judgement(Verdict.WRONG, self._reason(completed.ended))

    def _reason(self, ended: ProcessEnd) -> str:
        limits = self._limits
        reasons = {
            ProcessEnd.TIME: f"time limit of {limits.seconds:g} s",
            ProcessEnd.MEMORY: f"memory limit of {limits.memory / 2**30:.3g} GiB",
            ProcessEnd.PROCESSES: f"limit of {limits.processes} processes",
            ProcessEnd.DISK: f"limit of {limits.disk >> 20} MiB of disk space",
        }
        return reasons.get(ended, "the program exited before its tests finished")

    def _on_message(self, message: dict[str, object]) -> None:
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
            self._verdict = Judgement(Verdict.WRONG, "the program exited before its tests finished")

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
            self._verdict = Judgement(Verdict.WRONG, f"{name}: printed {_preview(message.get('output'))}")
        elif self._kind == "call" and not same_value(message.get("result"), json.loads(expected)):
            self._verdict = Judgement(Verdict.WRONG, f"{name}: returned {_preview(message.get('result'))}")
        self._passed_cases.add(index)
        if self._verdict is None and len(self._passed_cases) == len(self._expected):
            self._verdict = Judgement(Verdict.CORRECT)


def _preview(value: object) -> str:
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= 80 else text[:77] + "...")


# Printed or returned values against expected ones, by LiveCodeBench's rules (arXiv:2403.07974).
#
# Printed: white space around the whole and around each line does not count; the number of lines must agree; a line
# agrees when it is the same text, or when both are numbers, token by token, of exactly the same decimal values (`1.0`
# and `1`, not `0.33` and `0.333`). Returned: equal as JSON, a tuple being a list; no tolerance for floats.


def same_output(printed: str, expected: str) -> bool:
    """Whether a program printed what was expected."""
    printed_lines, expected_lines = _lines(printed), _lines(expected)
    return len(printed_lines) == len(expected_lines) and all(
        _same_line(a, b) for a, b in zip(printed_lines, expected_lines, strict=True)
    )


def same_value(returned: object, expected: object) -> bool:
    """Whether a function returned what was expected."""
    try:
        return bool(returned == expected)
    except RecursionError:
        return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    a, b = printed.split(), expected.split()
    if len(a) != len(b):
        return False
    try:
        return [Decimal(token) for token in a] == [Decimal(token) for token in b]
    except InvalidOperation:
        return False
