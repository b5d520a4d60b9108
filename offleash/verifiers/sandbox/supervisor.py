"""The first process inside the sandbox: starts the command under its limits, and ends everything that exceeds them.

Reached from launcher.py, directly or through bwrap. As process 1 of its namespace it cannot be signalled from inside,
and when it ends the kernel ends all others with it. Standard library only.

Limits are of two kinds. The kernel enforces those of a single process (`run_command`: setrlimit), at once and without
fail. What all processes hold or use together it does not bound without cgroups, which need rights we may not have: the
supervisor adds it up every 50 ms (`_exceeded_limit`), so that a command can exceed these for that long. Memory that
belongs to no process, such as a memfd, cannot be added up: the calls that make it are refused
(limits.block_system_calls).
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
    NO_NEW_PRIVILEGES,
    PDEATHSIG,
    block_system_calls,
    cpu_time_with_descendants,
    drop_capabilities,
    limit_memory,
    limit_processes,
    prctl,
    processes,
    read_small_file,
    set_limit,
)

EXIT_MEMORY, EXIT_PROCESSES, EXIT_DISK, EXIT_TIME = 91, 92, 93, 94  # exit codes: which limit was exceeded
PRELOADED = "preloaded"  # in place of a program: a module that the launcher has imported
NOBODY = 65534
CHECK_INTERVAL = 0.05  # seconds between two looks at what all processes hold
PAGE_BYTES = resource.getpagesize()


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
    while _is_running(child):
        if exceeded := _exceeded_limit(spec):
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


def _exceeded_limit(spec: dict[str, object]) -> int:
    """The limit that all processes together have exceeded, or 0."""
    limits: dict[str, int] = spec["limits"]  # type: ignore[assignment]
    pids = [pid for pid in processes() if pid != 1]
    if len(pids) > limits["processes"]:
        return EXIT_PROCESSES
    resident = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            resident += int(read_small_file(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
    if resident > limits["memory"]:
        return EXIT_MEMORY
    if limits["seconds"] and cpu_time_with_descendants(1) - sum(os.times()[:2]) > limits["seconds"]:
        return EXIT_TIME
    with contextlib.suppress(OSError):
        disk = os.statvfs("/tmp")
        if (disk.f_blocks - disk.f_bfree) * disk.f_frsize > limits["disk"] + (1 << 20):
            return EXIT_DISK
    return 0
