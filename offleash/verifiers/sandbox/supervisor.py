"""The first process inside the sandbox: starts the command under its limits, and ends everything that exceeds them.

Reached from launcher.py, directly or through bwrap. As process 1 of its namespace it cannot be signalled from inside,
and when it ends the kernel ends all others with it. Standard library only.

Limits are of two kinds. The kernel enforces those of a single process (`run_command`: setrlimit), at once and without
fail. What all processes hold or use together it does not bound without cgroups, which need rights we may not have: the
supervisor adds it up every 50 ms (`_Usage.exceeded_limit`), so that a command can exceed these for that long. Memory
that belongs to no process, such as a memfd, cannot be added up: the calls that make it are refused
(limits.block_system_calls). The buffers of sockets count as full.
"""

import contextlib
import json
import os
import resource
import signal
import sys
from importlib import import_module

from offleash.verifiers.sandbox.limits import (
    DUMPABLE,
    MAX_FILES,
    NO_NEW_PRIVILEGES,
    PDEATHSIG,
    TICKS_PER_SECOND,
    block_system_calls,
    drop_capabilities,
    limit_memory,
    limit_processes,
    prctl,
    process_times,
    read_small_file,
    set_limit,
)

EXIT_MEMORY, EXIT_PROCESSES, EXIT_DISK, EXIT_TIME = 91, 92, 93, 94  # exit codes: which limit was exceeded
PRELOADED = "preloaded"  # in place of a program: a module that the launcher has imported
NOBODY = 65534
CHECK_INTERVAL = 0.05  # seconds between two looks at what all processes hold
PAGE_BYTES = resource.getpagesize()


def _bytes_of_a_socket() -> int:
    """What one socket may hold: net.core.wmem_default, which a network namespace of one's own does not show."""
    with contextlib.suppress(OSError, ValueError):
        return int(read_small_file("/proc/sys/net/core/wmem_default"))
    return 212_992  # the kernel's own


SOCKET_BYTES = _bytes_of_a_socket()  # read in the launcher, before it enters any namespace


def main(arguments: list[str]) -> None:
    """As bubblewrap starts it: process 1, everything mounted."""
    supervise(json.loads(arguments[0]))


def supervise(spec: dict[str, object]) -> None:
    """Start the command and watch it; never returns."""
    prctl(PDEATHSIG, signal.SIGKILL)
    prctl(DUMPABLE, 0)  # nobody inside reads or writes its memory
    with contextlib.suppress(OSError):
        os.chmod("/tmp", 0o1777)  # noqa: PTH101  (bwrap's tmpfs belongs to root; the command is nobody)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # for sigtimedwait below: none is lost in between
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        run_command(spec, "/tmp")
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard_fd in (0, 1, 2):  # the command alone holds the pipes: their end is its end
        os.dup2(devnull, standard_fd)
    os.closerange(3, devnull)
    drop_capabilities()
    usage = _Usage(spec["limits"])  # type: ignore[arg-type]
    while _is_running(child):
        if exceeded := usage.exceeded_limit():
            os._exit(exceeded)
        signal.sigtimedwait({signal.SIGCHLD}, CHECK_INTERVAL)
    os._exit(0)


def run_command(spec: dict[str, object], folder: str) -> None:
    """Turn this process into the command, with its limits and nothing else; never returns.

    The order matters: the user is changed while that is still allowed, then privileges are given up for good, and the
    limit of memory comes last, because everything before it allocates. A command that begins with the word PRELOADED
    is a module of ours: its `main` is called without the start of another Python.
    """
    limits: dict[str, int] = spec["limits"]  # type: ignore[assignment]
    command: list[str] = spec["command"]  # type: ignore[assignment]
    environment: dict[str, str] = spec["environment"] | {"HOME": folder, "TMPDIR": folder}  # type: ignore[operator]
    try:
        os.setsid()
        os.chdir(folder)
        if spec["backend"] != "trusted" and os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        if spec["backend"] != "trusted":
            drop_capabilities()
        prctl(NO_NEW_PRIVILEGES, 1)
        limit_processes(limits["processes"], in_user_namespace=spec["backend"] != "trusted")
        set_limit(resource.RLIMIT_FSIZE, limits["disk"])
        set_limit(resource.RLIMIT_NOFILE, limits["files"])
        if limits["seconds"]:  # above the limit of all together, which says what happened
            set_limit(resource.RLIMIT_CPU, int(limits["seconds"]) + 2)
        if spec["backend"] != "trusted":
            block_system_calls()
        limit_memory(limits["memory"])
        if command[0] == PRELOADED:
            os.environ.clear()
            os.environ.update(environment)
            import_module(command[1]).main(command[2:])
            os._exit(0)
        os.execve(command[0], command, environment)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error}\n")
        sys.stderr.flush()
    os._exit(126)


def _is_running(child: int) -> bool:
    """Whether the command still runs; reaps orphans on the way, as process 1 must."""
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            if pid == child:
                return False
        return True
    return False


class _Usage:
    """What all processes hold and have used together, against the limits."""

    def __init__(self, limits: dict[str, int]) -> None:
        self._limits = limits
        self._own_ticks: dict[tuple[int, int], int] = {}  # of every process that was ever seen, by number and start

    def exceeded_limit(self) -> int:
        """The exit code of the limit that is exceeded, or 0."""
        limits = self._limits
        times = {process: ticks for process, ticks in process_times().items() if process[0] != 1}  # without this one
        if len(times) > limits["processes"]:
            return EXIT_PROCESSES
        if sum(_resident_bytes(pid) for pid, _ in times) + _socket_count() * SOCKET_BYTES > limits["memory"]:
            return EXIT_MEMORY
        if limits["seconds"] and self._seconds(times) > limits["seconds"]:
            return EXIT_TIME
        with contextlib.suppress(OSError):
            disk = os.statvfs("/tmp")
            if (disk.f_blocks - disk.f_bfree) * disk.f_frsize > limits["disk"] + (1 << 20):
                return EXIT_DISK
            if disk.f_files - disk.f_ffree > MAX_FILES:
                return EXIT_DISK
        return 0

    def _seconds(self, times: dict[tuple[int, int], tuple[int, int]]) -> float:
        """Processor time of all processes, those that have ended included.

        The kernel adds what a process used to its parent's when the parent waits for it, and forgets it where the
        parent ignores SIGCHLD. So what each process used itself is kept, too; both sums are too small, never too large.
        """
        self._own_ticks |= {process: own for process, (own, _) in times.items()}
        waited_for = os.times()  # by this process: orphans
        counted = sum(map(sum, times.values())) / TICKS_PER_SECOND
        counted += waited_for.children_user + waited_for.children_system
        return max(counted, sum(self._own_ticks.values()) / TICKS_PER_SECOND)


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(read_small_file(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
    return 0


def _socket_count() -> int:
    """Unix sockets in the network namespace, which is the command's own."""
    with contextlib.suppress(OSError), open("/proc/net/unix", "rb") as lines:  # noqa: PTH123
        return sum(1 for _ in lines) - 1  # without the heading
    return 0
