"""How many CPUs this process may use, and how many threads its numerical libraries should start.

The command line calls `limit_threads` before NumPy and torch load, because they read the environment once, when they
are imported. A Python program that imports offleash decides for itself: a setting made by a library would affect the
rest of the program too, and come too late if NumPy was imported first.
"""

import math
import os
from collections.abc import MutableMapping
from pathlib import Path

# MKL and OpenBLAS read this one too where their own is not set, so one variable covers them all, and a user's
# MKL_NUM_THREADS or OPENBLAS_NUM_THREADS still takes precedence. Polars and tokenizers (Rust) count affinity and quotas
# themselves, and their threads steal work instead of waiting for each other at a barrier.
OMP_VARIABLE = "OMP_NUM_THREADS"
FEW_CPUS = 4  # CPUs: up to here one thread is right, see `thread_count`
CGROUPS = Path("/sys/fs/cgroup")


def thread_count(cpus: int, load: float = 0.0) -> int:
    """Threads for the numerical libraries of one process.

    OpenMP threads meet at a barrier after every operation, and spin while they wait. If another process holds the CPU
    of one of them, all wait for its time slice to end: with two threads on two CPUs and one busy neighbour, a training
    step of a small model takes 15 ms instead of 0.05 ms. On few CPUs any neighbour does that (an editor, the worker
    processes of a verifier, a second offleash), and the most a second thread could gain is a factor below two, so one
    thread is right. On many CPUs, half of those that are idle: two CPUs are mostly one core, and this leaves some
    for other processes.

    Args:
        cpus: what this process may use: `usable_cpus`.
        load: the share of these CPUs that other processes keep busy now, from 0 to 1.

    >>> thread_count(2), thread_count(16), thread_count(16, load=0.5), thread_count(16, load=1.0)
    (1, 8, 4, 1)
    """
    return 1 if cpus <= FEW_CPUS else max(1, int(cpus * (1 - min(load, 1.0)) / 2))


def usable_cpus() -> int:
    """CPUs that this process may use: its affinity (taskset, Slurm), and the quota of its container."""
    try:
        affinity = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        affinity = os.cpu_count() or 1
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        groups = ""
    return max(1, math.floor(min(affinity, cpu_quota(groups))))


def cpu_quota(groups: str, root: Path = CGROUPS) -> float:
    """CPUs that the control groups of a process allow; infinite where nothing limits them.

    A limit binds everything below it, so that of each parent counts too. Inside a container the path may name a folder
    of the host that is not there: then its parents, up to the root, are what the container sees.

    Args:
        groups: the text of /proc/self/cgroup, lines of id:controllers:path.
        root: where control groups are mounted.
    """
    quota = math.inf
    for line in groups.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        relative_path = Path(path.lstrip("/"))
        for ancestor in (relative_path, *relative_path.parents):
            if not controllers:  # version 2: "max 100000" or "200000 100000"
                quota = min(quota, _ratio(_read_or_empty(root / ancestor / "cpu.max").split()))
            elif "cpu" in controllers.split(","):  # version 1: -1 is no limit
                folder = root / "cpu" / ancestor
                quota = min(
                    quota,
                    _ratio([_read_or_empty(folder / "cpu.cfs_quota_us"), _read_or_empty(folder / "cpu.cfs_period_us")]),
                )
    return quota


def limit_threads(environment: MutableMapping[str, str]) -> None:
    """Choose the number of threads unless the environment does; call it before NumPy is imported."""
    if OMP_VARIABLE not in environment:
        try:
            load = os.getloadavg()[0] / (os.cpu_count() or 1)
        except OSError:  # not known on this system
            load = 0.0
        environment[OMP_VARIABLE] = str(thread_count(usable_cpus(), load))


def _read_or_empty(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _ratio(fields: list[str]) -> float:
    """Microseconds of CPU time per period as CPUs; infinite where there is no limit, or none that can be read."""
    if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit() and int(fields[1]):
        return int(fields[0]) / int(fields[1])
    return math.inf
