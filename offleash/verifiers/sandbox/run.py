"""Run a command without network, the user's files or environment, and under limits; or say what is missing for that.

By Linux namespaces directly (isolation.py) where they are allowed, otherwise by `bwrap` where it works. Inside there
are: the system's programs and libraries and this Python, read-only; a small folder of its own, /tmp; a few devices; its
own /proc. Not there: home and data folders, /etc (so no /etc/passwd), other processes, any network including the host's
loopback, and all environment variables of the caller.

Limits: processor time of all processes together, address space per process and memory of all together, number of
processes, size of a file and of the folder, open files, output. Time on the clock is limited too, but to end what waits
forever: on a busy machine a command that did nothing wrong can reach it, so it says nothing about the command. Whatever
happens, the command's processes end with `run`, or with this process.

Not covered: a hole in the kernel itself; how much of the machine's time is used within the limits.
"""

import contextlib
import os
import select
import selectors
import socket
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
from offleash.verifiers.sandbox.clock import WALL_FACTOR, CaseClock, ExceededLimit
from offleash.verifiers.sandbox.launcher import EXIT_NO_SANDBOX, PID_FORMAT
from offleash.verifiers.sandbox.supervisor import EXIT_DISK, EXIT_MEMORY, EXIT_PROCESSES, EXIT_TIME, PRELOADED

# Modules that run inside a sandbox, imported by the launcher once for all.
PRELOADED_MODULES = (
    "offleash.verifiers.program.runner",
    "offleash.verifiers.program.calls",
    "offleash.verifiers.program.assertions",
)


@dataclass(frozen=True)
class ResourceLimits:
    """What a command may use."""

    seconds: float = 9.0  # of processor time, all processes together; 0: no limit
    memory: int = 2 << 30  # bytes: address space of each process, and resident memory of all
    processes: int = 48  # and threads
    disk: int = 64 << 20  # bytes of its folder, and of a file
    output: int = 64 << 20  # bytes it may write to its standard output
    files: int = 256  # open at once
    wall_factor: float = WALL_FACTOR  # seconds on the clock for each second of processor time


class Launcher:
    """The process that builds sandboxes (launcher.py): started with the first one, ended by `close` or with us.

    Several threads may start sandboxes at the same time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, spec: str, fds: Sequence[int]) -> None:
        """Have a sandbox built with these descriptors: see launcher._run."""
        with self._lock:
            for attempt in range(2):
                if self._process is None or self._process.poll() is not None or attempt:
                    self._start()
                assert self._requests is not None
                with contextlib.suppress(OSError):  # killed meanwhile: by another one
                    socket.send_fds(self._requests, [spec.encode()], list(fds))
                    return
        raise OffleashError("The process that builds sandboxes exited immediately. Run the command again.")

    def close(self) -> None:
        """End it; sandboxes that still run end with their own lifelines."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        self._requests, child_fds = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._requests.setsockopt(socket.SOL_SOCKET, buffer, 1 << 18)
        with child_fds:
            self._process = subprocess.Popen(
                interpreter.light_python_command(
                    "offleash.verifiers.sandbox.launcher", str(child_fds.fileno()), *PRELOADED_MODULES
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(child_fds.fileno(),),
                env=interpreter.environment(),
                start_new_session=True,  # a Ctrl-C is ours to handle
            )

    def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            self._process.wait()
        self._requests, self._process = None, None


@dataclass(frozen=True)
class SandboxPolicy:
    """Under which limits and in which isolation the verifier in this thread may run model-written code."""

    limits: ResourceLimits = ResourceLimits()
    trust_code: bool = False  # run without isolation where the machine offers none
    stopped: threading.Event = field(default_factory=threading.Event)
    launcher: Launcher | None = None  # None: one is started for each command


POLICY: ContextVar[SandboxPolicy] = ContextVar("policy", default=SandboxPolicy())  # noqa: B039  (frozen; nobody sets the default's event)


class ProcessEnd(StrEnum):
    """How a command came to its end."""

    DONE = "it ended by itself"
    STOPPED_BY_CALLER = "the caller had seen enough"
    TIME = "time limit"
    WALL = "wall-clock limit"
    MEMORY = "memory limit"
    PROCESSES = "process limit"
    DISK = "disk space limit"
    OUTPUT = "output limit"
    STOPPED = "stopped by the caller"


@dataclass(frozen=True)
class CompletedCommand:
    """What a command left behind."""

    output: bytes
    errors: str  # the last of its standard error
    ended: ProcessEnd
    limit: str = ""  # of time, in words, where one was exceeded


LIMIT_OF_EXIT_CODE = {
    EXIT_MEMORY: ProcessEnd.MEMORY,
    EXIT_PROCESSES: ProcessEnd.PROCESSES,
    EXIT_DISK: ProcessEnd.DISK,
    EXIT_TIME: ProcessEnd.TIME,
}


def preloaded_command(module: str, *arguments: str) -> list[str]:
    """The command that calls `main(arguments)` of one of MODULES, without the start of another Python."""
    assert module in PRELOADED_MODULES
    return [PRELOADED, module, *arguments]


def run(
    command: Sequence[str],
    limits: ResourceLimits,
    *,
    stdin: bytes = b"",
    trust_code: bool = False,
    backend: str | None = None,
    modules: Sequence[str] = (),
    launcher: Launcher | None = None,
    extra_fds: Sequence[int] = (),
    companions: "Sequence[SandboxedProcess]" = (),
    on_output: Callable[[bytes], bool] | None = None,
    stopped: threading.Event | None = None,
) -> CompletedCommand:
    """Run a command to its end or to its first broken limit.

    Args:
        command: program and arguments; the program must be among what the sandbox holds, such as this Python.
        limits: of time, memory, processes, disk and output.
        stdin: what the command gets as its standard input.
        trust_code: run without isolation where the machine offers none.
        backend: `bwrap`, `namespaces` or `trusted`; None: the best that works here.
        modules: packages that the command imports beside the standard library and site-packages.
        launcher: builds the sandbox; None: one is started for this command.
        extra_fds: descriptors that the command gets as 3, 4, ... beside its standard ones; closed here after that.
        companions: others that work with the command: it does not wait as long as they run.
        on_output: gets the output as it comes, and ends the command by returning true.
        stopped: ends the command when it is set, from any thread.

    Returns:
        Its output, the last line of its standard error, and how it ended. A broken limit is no error.
    """
    clock = CaseClock(limits.seconds, limits.wall_factor)
    with SandboxedProcess(
        command, limits, trust_code=trust_code, backend=backend, modules=modules, launcher=launcher, extra_fds=extra_fds
    ) as process:
        output, ended, limit = _feed_and_collect([process, *companions], stdin, limits, clock, on_output, stopped)
        while ended is ProcessEnd.DONE and process.code is None:
            # the supervisor says by its exit code which limit it enforced: the command itself was killed silently
            ended = LIMIT_OF_EXIT_CODE.get(process.wait(max(0.0, clock.next_check - time.monotonic())), ProcessEnd.DONE)
            if process.code is None and (exceeded := clock.check([process.pid])):
                ended, limit = _end_reason(exceeded), clock.reason(exceeded)
        process.end()
        if process.code == EXIT_NO_SANDBOX:
            raise OffleashError(f"The sandbox could not be built: {process.errors()}.")
        return CompletedCommand(output, process.errors(), ended, limit)


def _end_reason(exceeded: ExceededLimit) -> ProcessEnd:
    return ProcessEnd.TIME if exceeded is ExceededLimit.CPU_TIME else ProcessEnd.WALL


class SandboxedProcess:
    """A command in isolation, with pipes to its standard input and output; ends with `end` or with this process."""

    def __init__(
        self,
        command: Sequence[str],
        limits: ResourceLimits,
        *,
        trust_code: bool = False,
        backend: str | None = None,
        modules: Sequence[str] = (),
        launcher: Launcher | None = None,
        pipes: tuple[int, int] | None = None,
        extra_fds: Sequence[int] = (),
    ) -> None:
        """Start it; `pipes` are its standard input and output where they do not lead here; see `run` for the rest.

        `pipes` and `extra_fds` are closed here once the command has them.
        """
        chosen = backend or choose_backend(trust_code)
        self.code: int | None = None  # exit code once it has ended; -1: nobody knows
        self._pid = 0
        self._own_launcher = Launcher() if launcher is None else None
        # A file, not a pipe: a command that writes gigabytes of errors must not block, and nobody reads it meanwhile.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `__exit__`)
        child_fds: list[int] = []
        self._own_fds: list[int] = []
        try:
            # Nobody writes to the lifeline. The launcher reads it, and the kernel closes our end however we die.
            # PR_SET_PDEATHSIG would not do: it is sent when the starting thread ends, and a change of user clears it.
            lifeline_read, self._lifeline = self._pipe(child_fds, kept_end=1)
            self._status, status_write = self._pipe(child_fds, kept_end=0)
            if pipes is None:
                stdin, self.input_fd = self._pipe(child_fds, kept_end=1)
                self.output_fd, stdout = self._pipe(child_fds, kept_end=0)
                pipes = stdin, stdout
            fds = [lifeline_read, status_write, *pipes, self._errors.fileno(), *extra_fds]
            spec = interpreter.specification(chosen, command, asdict(limits), modules)
            (launcher or self._own_launcher).submit(spec, fds)  # type: ignore[union-attr]
        except BaseException:
            self._close(*self._own_fds)
            self._errors.close()
            if self._own_launcher is not None:
                self._own_launcher.close()
            raise
        finally:
            for fd in {*child_fds, *(pipes or ()), *extra_fds}:
                os.close(fd)

    def _pipe(self, child_fds: list[int], kept_end: int) -> tuple[int, int]:
        """A pipe, of which we keep one end."""
        ends = os.pipe()
        self._own_fds.append(ends[kept_end])
        child_fds.append(ends[1 - kept_end])
        return ends

    def __enter__(self) -> "SandboxedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._errors.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.wait(0.0) == -1 and self.code is None

    def wait(self, seconds: float) -> int:
        """Its exit code; -1 when it still runs after that time."""
        if self.code is None and self.pid and select.select([self._status], [], [], seconds)[0]:
            message = os.read(self._status, 1)
            self.code = message[0] if message else -1  # the launcher's fork was killed: its children end with it
        return -1 if self.code is None else self.code

    @property
    def pid(self) -> int:
        """The process outside of the sandbox that all of it descends from."""
        if not self._pid and self.code is None:
            # the first that it does; written at once, so never a part of it
            message = os.read(self._status, PID_FORMAT.size)
            self._pid = PID_FORMAT.unpack(message)[0] if message else 0
            self.code = None if message else -1
        return self._pid

    def close_input(self) -> None:
        """Close its standard input."""
        self._close(self.input_fd)

    def end(self) -> None:
        """End it and everything it started, and wait until that is so."""
        self._close(self._lifeline)
        if self._status in self._own_fds:
            while self.code is None:
                self.wait(60.0)
        self._close(*self._own_fds)
        if self._own_launcher is not None:
            self._own_launcher.close()

    def _close(self, *fds: int) -> None:
        for fd in fds:
            if fd in self._own_fds:
                self._own_fds.remove(fd)
                os.close(fd)

    def errors(self) -> str:
        """The last line of its standard error."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4000))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip().rstrip(".") if lines else ""


@cache
def unavailable_reason(backend: str) -> str:
    """Why an isolation backend cannot be used on this machine; "" when it can. Tried once per process.

    A trial is the only reliable test: containers, sysctls, AppArmor and old kernels refuse in as many ways.
    """
    if not interpreter.LINUX:
        return "only Linux has namespaces"
    if backend == "bwrap" and interpreter.bubblewrap() is None:
        return "it is not installed"
    error = ""
    # root's files may be closed to nobody: then it stays root's, without privileges
    for as_owner in (False, True) if os.geteuid() == 0 else (False,):
        for starts_python in (False, True) if backend == "bwrap" else (False,):
            interpreter.VARIANTS[backend] = interpreter.BackendVariant(as_owner, starts_python)
            if not (error := _try_sandbox(backend)):
                return ""
    return error


def choose_backend(trust_code: bool) -> str:
    """namespaces, bwrap, or trusted; an error that says what is missing when code may not be trusted.

    Both isolate alike, and the same tests hold them to it. bwrap must be started for every sandbox, which takes a
    little longer, so it is for machines that allow namespaces to it alone.
    """
    for backend in ("namespaces", "bwrap"):
        if not unavailable_reason(backend):
            return backend
    if trust_code:
        return "trusted"
    raise OffleashError(
        "Model-written code runs only in isolation, but this machine offers none. Without it, the code could reach the "
        "network, the user's files, the environment and other processes. "
        f"bwrap: {unavailable_reason('bwrap')}. User namespaces: "
        f"{unavailable_reason('namespaces')}. Install bubblewrap or allow user namespaces; or pass --trust-code to run "
        "it unprotected, with limits on time and memory only."
    )


def describe_isolation(trust_code: bool = False) -> str:
    """What is in force here, in words."""
    backend = choose_backend(trust_code)
    if backend == "trusted":
        return (
            "limits on time, memory, file size and open files only: the code can reach the network and the user's files"
        )
    means = "bubblewrap" if backend == "bwrap" else "Linux namespaces"
    return (
        f"isolated by {means}: no network, no user files, no environment, no other processes; limits on time, "
        "memory, processes, disk, open files and output"
    )


def _try_sandbox(backend: str) -> str:
    """Why a trial in the sandbox fails, or "": Python starts, and its libraries can be read."""
    try:
        trial = run(interpreter.trial_command(), ResourceLimits(seconds=20), backend=backend)
    except OffleashError as error:
        return str(error).removeprefix("The sandbox could not be built: ").rstrip(".")
    except OSError as error:
        return str(error)
    return "" if trial.output == b"ready\n" else trial.errors or f"a trial did not answer: {trial.ended}"


def _feed_and_collect(
    processes: "Sequence[SandboxedProcess]",
    stdin: bytes,
    limits: ResourceLimits,
    clock: CaseClock,
    on_output: Callable[[bytes], bool] | None,
    stopped: threading.Event | None,
) -> tuple[bytes, ProcessEnd, str]:
    """Feed the first of the processes and collect its output, never blocking, until its end or a limit.

    Both at once: a command that prints before it has read its input would otherwise wait for us, and we for it.
    """
    process = processes[0]
    output_fd, input_fd = process.output_fd, process.input_fd
    output, left = bytearray(), memoryview(stdin)
    with selectors.DefaultSelector() as ready:
        for pipe, event in ((output_fd, selectors.EVENT_READ), (input_fd, selectors.EVENT_WRITE)):
            os.set_blocking(pipe, False)
            ready.register(pipe, event)
        while True:
            if stopped is not None and stopped.is_set():
                return bytes(output), ProcessEnd.STOPPED, ""
            if time.monotonic() >= clock.next_check and (exceeded := clock.check([each.pid for each in processes])):
                return bytes(output), _end_reason(exceeded), clock.reason(exceeded)
            for key, _ in ready.select(0.1):  # a tenth of a second: how soon `stopped` is noticed
                if key.fd == input_fd:
                    left = _write_available(input_fd, left)
                    if not left:
                        ready.unregister(input_fd)
                        process.close_input()
                    continue
                chunk = os.read(output_fd, 1 << 16)
                if not chunk:
                    return bytes(output), ProcessEnd.DONE, ""
                output += chunk
                if on_output is not None and on_output(chunk):
                    return bytes(output), ProcessEnd.STOPPED_BY_CALLER, ""
                if len(output) > limits.output:
                    return bytes(output[: limits.output]), ProcessEnd.OUTPUT, ""


def _write_available(fd: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(fd, left[: 1 << 16]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:  # it closed its input: what it says on its output counts
        return memoryview(b"")
