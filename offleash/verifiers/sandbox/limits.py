"""Limits that a process sets on itself before it runs untrusted code; prctl and /proc. Standard library only."""

import contextlib
import os
import resource
import signal
import sys

PDEATHSIG, DUMPABLE, SUBREAPER, NO_NEW_PRIVILEGES = 1, 4, 36, 38  # prctl(2)
LINUX = sys.platform == "linux"


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; nothing where the system has no such call."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def limit_resource(what: int, most: int) -> None:
    """Lower one limit of this process, soft and hard; never above what it may have; nothing where that is refused."""
    with contextlib.suppress(ValueError, OSError):  # macOS knows RLIMIT_AS and refuses it
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def limit_memory(most: int) -> None:
    """Limit the address space, and write no core files: each would be as large as the process."""
    limit_resource(resource.RLIMIT_AS, most)
    limit_resource(resource.RLIMIT_CORE, 0)


def limit_cpu(seconds: float) -> None:
    """Seconds of processor time from now on: the kernel ends what a parent can no longer end."""
    with contextlib.suppress(ValueError, OSError):
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        # two seconds above the wall-clock limit, so that the parent's own limit acts first and names the reason
        soft = int(used.ru_utime + used.ru_stime + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def limit_processes(most: int, in_user_namespace: bool) -> None:
    """Processes and threads of this user; it does not bind root (setrlimit(2))."""
    if not (in_user_namespace and _counted_by_namespace()):
        most += _tasks_of(os.getuid())  # counted over the whole system: those that run already are in the count
    limit_resource(resource.RLIMIT_NPROC, most)


def reap(child: int, alone: bool) -> int:
    """End a fork and what it has started, and wait for it; its wait status.

    `alone`: this process is the second of a process namespace of its own, where everybody else but the first is a
    descendant; the numbers are checked, because the same call outside would end all processes of the user.
    """
    for end in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            end(child, signal.SIGKILL)
    if alone and os.getpid() == 2 and os.getppid() == 1:
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(child, 0)[1]
    return 0


def peak_memory() -> int:
    """The most memory this program has held, in bytes.

    Not getrusage on Linux: its peak outlives exec, so a worker would begin with that of the process that started it.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(content("/proc/self/status").partition(b"VmHWM:")[2].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def processes() -> dict[int, int]:
    """Every process that /proc shows, with its parent; empty without /proc."""
    parents = {}
    for name in _numbers("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the command's name, in brackets, may hold anything: the fields start after the last bracket
            fields = content(f"/proc/{name}/stat").rpartition(b")")[2].split()
            parents[int(name)] = int(fields[1])
    return parents


def content(path: str) -> bytes:
    """A small file's content, up to a page. Not by pathlib: a launcher that imports it starts a tenth slower."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _counted_by_namespace() -> bool:
    """Since Linux 5.14 a user's processes are counted apart in every user namespace."""
    release = [int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit()]
    return release >= [5, 14]


def _tasks_of(user: int) -> int:
    """Tasks of a user on the whole system; where it cannot be counted, a generous guess."""
    count = 0
    for name in _numbers("/proc"):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116  (a Path for each costs more than the call)
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
    return count or 2048


def _numbers(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208
    return []
