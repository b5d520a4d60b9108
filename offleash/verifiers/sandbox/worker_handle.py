"""The parent's side of a warm worker (worker.py): start it, send cases, read judgements, end it, never blocking.

Used by pool.py. A worker runs in a sandbox, or outside of one but tied to this process. Nothing that comes from it is
believed without a check: a worker that evaluates model-written text may have been taken over by it.

A case is limited in processor time, so that a busy machine changes no verdict. One that reaches the much longer limit
of time on the clock without having used its processor time is `failed` as well, but marked for another try.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from enum import Enum, auto

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.sandbox import interpreter
from offleash.verifiers.sandbox.clock import WALL_FACTOR, CaseClock, ExceededLimit
from offleash.verifiers.sandbox.launcher import EXIT_NO_SANDBOX
from offleash.verifiers.sandbox.limits import cpu_time
from offleash.verifiers.sandbox.messages import MalformedMessageError, pack_message, take_message
from offleash.verifiers.sandbox.run import (
    LIMIT_OF_EXIT_CODE,
    Launcher,
    ResourceLimits,
    SandboxedProcess,
    choose_backend,
)
from offleash.verifiers.verifier import Case, Isolation, Judgement, Verifier

START_TIMEOUT = 60.0  # imports on a busy machine; not charged to any case
MAX_CASES = 2000  # before a worker is replaced: libraries keep caches, and its memory must not creep towards its limit
GRACE_SECONDS = 5.0  # a sandboxed worker ends its own case at a limit; only if it does not, its parent ends it


class State(Enum):
    """Of a worker: STARTING -> IDLE <-> BUSY, and ENDED from any of them, for good."""

    STARTING = auto()
    IDLE = auto()
    BUSY = auto()
    ENDED = auto()


class VerifierWorker:
    """One worker process of one verifier; all methods return at once, and the pool's selector says when to call."""

    def __init__(self, verifier: Verifier, trust_code: bool, launcher: Launcher | None = None) -> None:
        self.verifier = verifier
        self.state = State.STARTING
        self.since = time.monotonic()  # when the state began
        self.index = -1  # of the case it is busy with
        self.cannot_load = False  # its module cannot be loaded: another try will fail as well
        self._case_count = 0
        self._next_check = 0.0  # when to look next whether its case has used its time
        self._wall_factor = WALL_FACTOR
        self._clock = CaseClock(0.0, 0.0)  # of its case
        self._unread = bytearray()
        self._unsent = memoryview(b"")
        self._process: SandboxedProcess | _UnisolatedProcess
        if verifier.isolation is Isolation.SANDBOX:
            backend = choose_backend(trust_code)
            fork_mode = "forks" if backend == "trusted" else "alone"
            command = interpreter.python_command(
                "offleash.verifiers.sandbox.worker", verifier.module, str(verifier.memory), "-1", fork_mode
            )
            limits = ResourceLimits(seconds=0.0, memory=verifier.memory)  # time is limited by case
            self._process = SandboxedProcess(
                command, limits, backend=backend, modules=[verifier.module], launcher=launcher
            )
        else:
            self._process = _UnisolatedProcess(verifier)
        self.input_fd, self.output_fd = self._process.input_fd, self._process.output_fd
        os.set_blocking(self.input_fd, False)
        os.set_blocking(self.output_fd, False)

    @property
    def deadline(self) -> float:
        """When it may have taken too long for what it is doing."""
        if self.state is State.STARTING:
            return self.since + START_TIMEOUT
        return self._next_check if self.state is State.BUSY else float("inf")

    @property
    def alive(self) -> bool:
        """Whether its process runs; asked before an idle one is used again, as it may have been killed meanwhile."""
        return self.state is not State.ENDED and self._process.alive

    @property
    def has_unsent(self) -> bool:
        """Whether a part of the case did not fit into the pipe: `write` goes on when the pipe is ready."""
        return bool(self._unsent)

    def submit(self, index: int, case: Case, wall_factor: float = WALL_FACTOR) -> None:
        """Give it a case; TypeError, ValueError or RecursionError when the case's details are no JSON."""
        message: dict[str, object] = {"answer": case.answer, "gold": case.gold, "question": case.question}
        message["details"] = dict(case.details)
        message |= {"seconds": self.verifier.seconds, "wall_factor": wall_factor}
        self._unsent = memoryview(pack_message(message))
        self.index, self.state, self.since, self._wall_factor = index, State.BUSY, time.monotonic(), wall_factor
        self._clock = CaseClock(self.verifier.seconds, wall_factor, used=cpu_time(self._process.pid))
        self._next_check = self._clock.next_check
        self._case_count += 1
        self.write()

    def write(self) -> None:
        """Send what the pipe takes."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # one that is gone shows when it is read
            while self._unsent:
                self._unsent = self._unsent[os.write(self.input_fd, self._unsent[: 1 << 16]) :]

    def read(self) -> Judgement | None:
        """Take what has come from it; the judgement when its case is decided, None when it is not yet."""
        while True:
            try:
                chunk = os.read(self.output_fd, 1 << 16)
            except BlockingIOError:
                return None
            self._unread += chunk
            try:
                message = take_message(self._unread)
            except MalformedMessageError:
                return self._fail_and_end("its process sent an unreadable reply")
            if message is not None:
                return self._handle_message(message)
            if not chunk:
                return self._fail_and_end(self._exit_reason())

    def time_out(self) -> Judgement | None:
        """End it if it took too long; the judgement of its case. None: it has time left, and a new `deadline`."""
        if self.state is State.STARTING:
            error = self._process.errors()
            self.end()
            raise OffleashError(
                f"The verifier {self.verifier.name!r} did not start in {START_TIMEOUT:g} s. {error}".strip()
            )
        if self.verifier.isolation is Isolation.SANDBOX:
            # it watches the time of its cases itself; this is for one that no longer does
            limit = self.since + self.verifier.seconds * self._wall_factor + GRACE_SECONDS
            if time.monotonic() < limit:
                self._next_check = limit
                return None
            exceeded: ExceededLimit | None = ExceededLimit.WALL_TIME
        else:
            exceeded = self._clock.check([self._process.pid])
            self._next_check = self._clock.next_check
        if exceeded is None:
            return None
        return self._fail_and_end(self._clock.reason(exceeded), retry=exceeded is not ExceededLimit.CPU_TIME)

    def end(self) -> None:
        """End the process and all it has started."""
        self.state = State.ENDED
        self._process.__exit__()

    def _handle_message(self, message: object) -> Judgement | None:
        """Act on a whole message, by state; anything unexpected ends the worker."""
        if not isinstance(message, dict):
            return self._fail_and_end("its process sent an unreadable reply")
        if self.state is State.STARTING:
            if message.get("ready") is not True:
                self.end()
                self.cannot_load = True
                raise _load_error(self.verifier, message)
            self.state, self.since = State.IDLE, time.monotonic()
            return None
        if self.state is not State.BUSY:
            return self._fail_and_end("its process sent an unreadable reply")
        judgement = _judgement(message)
        if judgement is None:
            return self._fail_and_end("its process sent an unreadable reply")
        if judgement.seconds > self.verifier.seconds and not judgement.retry:
            # nobody looked in time: the limit holds all the same
            judgement = self._failed(f"time limit of {self.verifier.seconds:g} s", judgement.seconds)
        peak = message.get("peak")
        self.state, self.since = State.IDLE, time.monotonic()
        # replaced before it is killed: at half its memory the next case could break the limit by no fault of its own.
        # Bytes left in the inbox belong to no case: the process has written more than one reply.
        too_large = isinstance(peak, int) and peak > self.verifier.memory // 2
        if message.get("replace_worker") or too_large or self._case_count >= MAX_CASES or self._unread:
            self.end()
        return judgement

    def _fail_and_end(self, reason: str, retry: bool = False) -> Judgement | None:
        """End the worker; its case fails, a worker that never started is an error."""
        busy, starting = self.state is State.BUSY, self.state is State.STARTING
        error, since = self._process.errors() if starting else "", self.since
        self.end()
        if starting:
            raise OffleashError(f"The verifier {self.verifier.name!r} could not start its worker: {error or reason}.")
        return self._failed(reason, time.monotonic() - since, retry) if busy else None

    def _failed(self, reason: str, seconds: float, retry: bool = False) -> Judgement:
        return Judgement(Verdict.FAILED, reason, seconds=min(seconds, self.verifier.seconds), retry=retry)

    def _exit_reason(self) -> str:
        """Why its process ended, from its exit code."""
        code = self._process.wait(2.0)
        memory = f"memory limit of {self.verifier.memory / 2**30:.3g} GiB"
        if code == EXIT_NO_SANDBOX:
            return self._process.errors()
        if code in LIMIT_OF_EXIT_CODE:
            return memory if LIMIT_OF_EXIT_CODE[code].value == "memory limit" else str(LIMIT_OF_EXIT_CODE[code].value)
        if code == -signal.SIGXCPU:  # nobody looked in time
            return f"time limit of {self.verifier.seconds:g} s"
        return f"its process died ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


class _UnisolatedProcess:
    """A process outside of any sandbox, in a session of its own, that ends with this one.

    Same methods as SandboxedProcess, where VerifierWorker uses them.
    """

    def __init__(self, verifier: Verifier) -> None:
        lifeline_read, self._lifeline = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        try:
            self._process = subprocess.Popen(
                interpreter.python_command(
                    "offleash.verifiers.sandbox.worker",
                    verifier.module,
                    str(verifier.memory),
                    str(lifeline_read),
                    "plain",
                ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=(lifeline_read,),
                env=interpreter.trusted_environment(),
                start_new_session=True,
                bufsize=0,
            )
        except BaseException:
            os.close(self._lifeline)
            self._errors.close()
            raise
        finally:
            os.close(lifeline_read)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.input_fd, self.output_fd = self._process.stdin.fileno(), self._process.stdout.fileno()

    def __exit__(self, *_: object) -> None:
        if self._lifeline < 0:
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._lifeline)
        self._lifeline = -1
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return 0

    def errors(self) -> str:
        """The last line of its standard error."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4000))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip().rstrip(".") if lines else ""


def _judgement(message: dict[str, object]) -> Judgement | None:
    """A judgement from a worker's message; None when it is none."""
    reason, score, solution = message.get("reason"), message.get("score"), message.get("solution")
    seconds, retry = message.get("seconds"), message.get("retry") is True
    try:
        verdict = Verdict(str(message.get("verdict")))
    except ValueError:
        return None
    if not isinstance(reason, str) or not isinstance(score, int | float | None):
        return None
    if not isinstance(solution, str | None) or not isinstance(seconds, int | float):
        return None
    if retry and verdict is not Verdict.FAILED:
        return None
    return Judgement(verdict, reason, None if score is None else float(score), solution, float(seconds), retry)


def _load_error(verifier: Verifier, message: dict[str, object]) -> OffleashError:
    error = str(message.get("trouble"))[:300]
    hint = f" Install it with: pip install 'offleash[{verifier.extra}]'." if verifier.extra else ""
    return OffleashError(
        f"The verifier {verifier.name!r} could not be loaded: {error}.{hint if message.get('missing') else ''}"
    )
