"""Run a command without network, the user's files or environment, and under limits; or say what is missing for that.

`bwrap` where it is installed and works, otherwise Linux namespaces directly (isolation.py). Inside there are: the
system's programs and libraries and this Python, read-only; a small folder of its own, /tmp; a few devices; its own
/proc. Not there: home and data folders, /etc (so no /etc/passwd), other processes, any network including the host's
loopback, and all environment variables of the caller.

Limits: processor time, address space per process and memory of all together, number of processes, size of a file and
of the folder, open files, output. Whatever happens, the command's processes end with `run`, or with this process.

Not covered: a hole in the kernel itself; how much of the machine's time is used within the limits.
"""

import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache

from offleash.errors import OffleashError
from offleash.verifiers.sandbox import interpreter
from offleash.verifiers.sandbox.launcher import CANNOT_ISOLATE
from offleash.verifiers.sandbox.supervisor import DISK, MEMORY, PROCESSES


@dataclass(frozen=True)
class ResourceLimits:
    """What a command may use."""

    seconds: float = 9.0  # of wall clock, the start of the sandbox included
    processor: int = 0  # seconds of one process; 0: no limit of its own
    memory: int = 2 << 30  # bytes: address space of each process, and resident memory of all
    processes: int = 48  # and threads
    disk: int = 64 << 20  # bytes of its folder, and of a file
    output: int = 64 << 20  # bytes it may write to its standard output
    files: int = 256  # open at once


@dataclass(frozen=True)
class SandboxPolicy:
    """Under which limits and in which isolation the verifier in this thread may run model-written code."""

    limits: ResourceLimits = ResourceLimits()
    trust_code: bool = False  # run without isolation where the machine offers none
    stopped: threading.Event = field(default_factory=threading.Event)


POLICY: ContextVar[SandboxPolicy] = ContextVar("policy", default=SandboxPolicy())  # noqa: B039  (frozen; nobody sets the default's event)


class ProcessEnd(StrEnum):
    """How a command came to its end."""

    DONE = "it ended by itself"
    STOPPED_BY_CALLER = "the caller had seen enough"
    TIME = "time limit"
    MEMORY = "memory limit"
    PROCESSES = "limit of processes"
    DISK = "limit of disk space"
    OUTPUT = "limit of output"
    STOPPED = "stopped by the caller"


@dataclass(frozen=True)
class CompletedCommand:
    """What a command left behind."""

    output: bytes
    errors: str  # the last of its standard error
    ended: ProcessEnd


END_BY_LIMIT = {MEMORY: ProcessEnd.MEMORY, PROCESSES: ProcessEnd.PROCESSES, DISK: ProcessEnd.DISK}


def run(
    command: Sequence[str],
    limits: ResourceLimits,
    *,
    stdin: bytes = b"",
    trust_code: bool = False,
    route: str | None = None,
    modules: Sequence[str] = (),
    watch: Callable[[bytes], bool] | None = None,
    stopped: threading.Event | None = None,
) -> CompletedCommand:
    """Run a command to its end or to its first broken limit.

    Args:
        command: program and arguments; the program must be among what the sandbox holds, such as this Python.
        limits: of time, memory, processes, disk and output.
        stdin: what the command gets as its standard input.
        trust_code: run without isolation where the machine offers none.
        route: `bwrap`, `namespaces` or `trusted`; None: the best that works here.
        modules: packages that the command imports beside the standard library and site-packages.
        watch: gets the output as it comes, and ends the command by returning true.
        stopped: ends the command when it is set, from any thread.

    Returns:
        Its output, the last line of its standard error, and how it ended. A broken limit is no error.
    """
    deadline = time.monotonic() + limits.seconds
    with SandboxedProcess(command, limits, trust_code=trust_code, route=route, modules=modules) as isolated:
        output, ended = _pump_streams(isolated, stdin, limits, deadline, watch, stopped)
        if ended is ProcessEnd.DONE:
            left = max(0.1, deadline - time.monotonic())
            # the supervisor says by its exit code which limit it enforced: the command itself was killed silently
            ended = END_BY_LIMIT.get(isolated.wait(left), ProcessEnd.DONE)
        isolated.end()
        if isolated.process.returncode == CANNOT_ISOLATE:
            raise OffleashError(f"The sandbox could not be built: {isolated.errors()}.")
        return CompletedCommand(output, isolated.errors(), ended)


class SandboxedProcess:
    """A command in isolation, with pipes to its standard input and output; ends with `end` or with this process."""

    def __init__(
        self,
        command: Sequence[str],
        limits: ResourceLimits,
        *,
        trust_code: bool = False,
        route: str | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        chosen = route or chosen_route(trust_code)
        # Nobody writes to the lifeline. The launcher reads it, and the kernel closes our end however we die.
        # PR_SET_PDEATHSIG would not do: it is sent when the starting thread ends, and a change of user clears it.
        held, self._lifeline = os.pipe()
        # A file, not a pipe: a command that writes gigabytes of errors must not block, and nobody reads it meanwhile.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`)
        spec = interpreter.specification(chosen, command, asdict(limits), held, modules)
        try:
            self.process = subprocess.Popen(
                interpreter.bare_interpreter_command("offleash.verifiers.sandbox.launcher", spec),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=(held,),
                env=interpreter.environment() if chosen != "trusted" else interpreter.trusted_environment(),
                start_new_session=True,  # a Ctrl-C is ours to handle
                bufsize=0,
            )
        except BaseException:
            os.close(self._lifeline)
            self._errors.close()
            raise
        finally:
            os.close(held)

    def __enter__(self) -> "SandboxedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._errors.close()

    def wait(self, seconds: float) -> int:
        """Its exit code; -1 when it still runs after that time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return -1

    def end(self) -> None:
        """End it and everything it started, and wait until that is so."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its children end with it: PR_SET_PDEATHSIG
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def errors(self) -> str:
        """The last line of its standard error."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4000))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip().rstrip(".") if lines else ""


@cache
def refusal(route: str) -> str:
    """Why a route to isolation is closed on this machine; "" when it is open. Tried once per process.

    A trial is the only reliable test: containers, sysctls, AppArmor and old kernels refuse in as many ways.
    """
    if not interpreter.LINUX:
        return "only Linux has namespaces"
    if route == "bwrap" and interpreter.bubblewrap() is None:
        return "it is not installed"
    error = _trial(route)
    if error and os.geteuid() == 0:  # root's files may be closed to nobody: then it stays root's, without privileges
        interpreter.ROUTES_AS_OWNER.add(route)
        error = _trial(route)
    return error


def chosen_route(trust_code: bool) -> str:
    """bwrap, namespaces, or trusted; an error that says what is missing when code may not be trusted."""
    for route in ("bwrap", "namespaces"):
        if not refusal(route):
            return route
    if trust_code:
        return "trusted"
    raise OffleashError(
        "Model-written code runs only in isolation, and this machine offers none: it would see the network, the "
        f"user's files, the environment and other processes. bwrap: {refusal('bwrap')}. User namespaces: "
        f"{refusal('namespaces')}. Install bubblewrap or allow user namespaces; or pass --trust-code to run it "
        "unprotected, under limits of time and memory only."
    )


def protections(trust_code: bool = False) -> str:
    """What is in force here, in words."""
    route = chosen_route(trust_code)
    if route == "trusted":
        return "limits of time, memory, file size and open files only: the code sees the network and the user's files"
    tool = "bubblewrap" if route == "bwrap" else "Linux namespaces"
    return (
        f"isolated by {tool}: no network, no user's files, no environment, no other processes; limits of time, "
        "memory, processes, disk, open files and output"
    )


def _trial(route: str) -> str:
    """Why a trial in the sandbox fails, or "": Python starts, and its libraries can be read."""
    try:
        trial = run(interpreter.trial(), ResourceLimits(seconds=20), route=route)
    except OffleashError as error:
        return str(error).removeprefix("The sandbox could not be built: ").rstrip(".")
    except OSError as error:
        return str(error)
    return "" if trial.output == b"ready\n" else trial.errors or f"a trial did not answer: {trial.ended}"


def _pump_streams(
    isolated: SandboxedProcess,
    stdin: bytes,
    limits: ResourceLimits,
    deadline: float,
    watch: Callable[[bytes], bool] | None,
    stopped: threading.Event | None,
) -> tuple[bytes, ProcessEnd]:
    """Feed the input and collect the output, never blocking, until its end or a limit.

    Both at once: a command that prints before it has read its input would otherwise wait for us, and we for it.
    """
    source, sink = isolated.process.stdout, isolated.process.stdin
    assert source is not None
    assert sink is not None
    output, left = bytearray(), memoryview(stdin)
    with selectors.DefaultSelector() as ready:
        for pipe, event in ((source, selectors.EVENT_READ), (sink, selectors.EVENT_WRITE)):
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, event)
        while True:
            if stopped is not None and stopped.is_set():
                return bytes(output), ProcessEnd.STOPPED
            if (time_left := deadline - time.monotonic()) <= 0:
                return bytes(output), ProcessEnd.TIME
            for key, _ in ready.select(min(time_left, 0.1)):  # a tenth of a second: how soon `stopped` is noticed
                if key.fileobj is sink:
                    left = _write_available(sink.fileno(), left)
                    if not left:
                        ready.unregister(sink)
                        sink.close()
                    continue
                chunk = os.read(source.fileno(), 1 << 16)
                if not chunk:
                    return bytes(output), ProcessEnd.DONE
                output += chunk
                if watch is not None and watch(chunk):
                    return bytes(output), ProcessEnd.STOPPED_BY_CALLER
                if len(output) > limits.output:
                    return bytes(output[: limits.output]), ProcessEnd.OUTPUT


def _write_available(fd: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(fd, left[: 1 << 16]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:  # it closed its input: what it says on its output counts
        return memoryview(b"")
