"""Limits that a process sets on itself before it runs untrusted code; prctl, seccomp and /proc.

Standard library only.
"""

import contextlib
import os
import resource
import signal
import sys

PDEATHSIG, DUMPABLE, SECCOMP, SUBREAPER, NO_NEW_PRIVILEGES = 1, 4, 22, 36, 38  # prctl(2)
CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL = 47, 4  # prctl(2)
CAPABILITY_VERSION_3 = 0x20080522  # capget(2)
LINUX = sys.platform == "linux"
MAX_FILES = 4096  # in a sandbox's /tmp: an empty one takes memory of the kernel that the size of /tmp does not count
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")  # of the times in /proc/*/stat, per second
# System calls that a sandboxed process is refused, by machine: (AUDIT_ARCH, numbers). They hold memory that no limit of
# a process counts (memfd_create, memfd_secret, shmget, shmat, msgget, semget, mq_open, keyrings, io_uring), reach into
# other processes (ptrace, process_vm_*, pidfd_getfd, kcmp), or open parts of the kernel that no program needs
# (bpf, perf_event_open, userfaultfd, namespaces and mounts). vmsplice keeps pages in pipes that no process maps.
BLOCKED_SYSTEM_CALLS: dict[str, tuple[int, tuple[int, ...]]] = {
    "x86_64": (
        0xC000003E,
        (
            *(319, 447, 29, 30, 68, 64, 240, 248, 249, 250, 425, 101, 310, 311, 438, 312, 321, 298, 323, 272, 308),
            *(165, 155, 304, 428, 429, 430, 442, 278),
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            *(279, 447, 194, 196, 186, 190, 180, 217, 218, 219, 425, 117, 270, 271, 438, 272, 280, 241, 282, 97, 268),
            *(40, 41, 265, 428, 429, 430, 442, 75),
        ),
    ),
}
# Calls that are refused with some arguments: by machine, the numbers of mmap, socket, socketpair and setsockopt.
RESTRICTED_SYSTEM_CALLS = {"x86_64": (9, 41, 53, 54), "aarch64": (222, 198, 199, 208)}
MAP_SHARED_ANONYMOUS, AF_UNIX, SO_SNDBUF, SO_SNDBUFFORCE = 0x21, 1, 7, 32  # mmap(2), socket(2), socket(7)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; nothing where the system has no such call."""
    if LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def set_limit(resource_id: int, maximum: int) -> None:
    """Lower one limit of this process, soft and hard; never above what it may have; nothing where that is refused."""
    with contextlib.suppress(ValueError, OSError):  # macOS knows RLIMIT_AS and refuses it
        _, hard = resource.getrlimit(resource_id)
        maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(resource_id, (maximum, maximum))


def limit_memory(maximum: int) -> None:
    """Limit the address space, and write no core files: each would be as large as the process."""
    set_limit(resource.RLIMIT_AS, maximum)
    set_limit(resource.RLIMIT_CORE, 0)


def drop_capabilities() -> None:
    """Give up every capability; for good together with NO_NEW_PRIVILEGES. Nothing where the system has none.

    Whoever makes or enters a user namespace holds all of them there. An exec would take them from an ordinary user, but
    a preloaded module runs without one, and with them a program could unmount, or write into the supervisor.
    """
    if not LINUX:
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "capset")


def block_system_calls() -> None:
    """Refuse BLOCKED_SYSTEM_CALLS to this process and all it starts, for good (seccomp(2)); needs NO_NEW_PRIVILEGES.

    The filter also refuses every call of a foreign architecture: 32-bit numbers would pass by the list.
    """
    machine = os.uname().machine
    if not LINUX or machine not in BLOCKED_SYSTEM_CALLS:
        return
    import ctypes
    import struct

    instructions = _filter_program(*BLOCKED_SYSTEM_CALLS[machine], *RESTRICTED_SYSTEM_CALLS[machine])
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))  # struct sock_fprog
    if ctypes.CDLL(None, use_errno=True).prctl(SECCOMP, 2, ctypes.create_string_buffer(program), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")


def _filter_program(
    architecture: int, numbers: tuple[int, ...], mmap: int, socket: int, socketpair: int, setsockopt: int
) -> list[tuple[int, int, int, int]]:
    """The filter, as instructions of BPF: code, jump if true, jump if false, constant.

    Refused by their arguments: memory that is shared and anonymous, which stays when no process shows it, as after
    MADV_DONTNEED; sockets of any family but Unix, since they reach nothing and their buffers are not counted; buffers
    larger than the usual ones.
    """
    load, equal, at_least, mask, return_code = 0x20, 0x15, 0x35, 0x54, 0x06  # LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, ALU|AND|K
    allow, refuse = 0x7FFF0000, 0x00050000 | 38  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with ENOSYS
    all_bits, refusal = 0xFFFFFFFF, -1  # refusal: a jump to the last instruction, whose distance is not known yet
    lines = [(load, 0, 0, 4), (equal, 0, refusal, architecture), (load, 0, 0, 0), (at_least, refusal, 0, 1 << 30)]
    lines += [(equal, refusal, 0, number) for number in numbers]
    for number, argument, bits, value, if_equal, otherwise in (
        (mmap, 3, MAP_SHARED_ANONYMOUS, MAP_SHARED_ANONYMOUS, refusal, 0),
        (socket, 0, all_bits, AF_UNIX, 0, refusal),
        (socketpair, 0, all_bits, AF_UNIX, 0, refusal),
        (setsockopt, 2, all_bits, SO_SNDBUF, refusal, 0),
        (setsockopt, 2, all_bits, SO_SNDBUFFORCE, refusal, 0),
    ):
        # the number again, which the argument of the rule before has replaced; arguments begin at byte 16, 8 for each
        lines += [(load, 0, 0, 0), (equal, 0, 3, number), (load, 0, 0, 16 + 8 * argument), (mask, 0, 0, bits)]
        lines += [(equal, if_equal, otherwise, value)]
    lines += [(return_code, 0, 0, allow), (return_code, 0, 0, refuse)]
    last = len(lines) - 1  # jumps are counted from the next instruction
    return [
        (
            code,
            last - place - 1 if if_true == refusal else if_true,
            last - place - 1 if if_false == refusal else if_false,
            constant,
        )
        for place, (code, if_true, if_false, constant) in enumerate(lines)
    ]


def cpu_time(pid: int) -> float:
    """Seconds of processor time that a process and the children it has waited for have used; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return _parent_and_ticks(pid)[1] / TICKS_PER_SECOND
    return 0.0


def cpu_time_with_descendants(root: int) -> float:
    """The same for a process and all its descendants, without those that ended and were not waited for."""
    parents, ticks = {}, {}
    for name in _pids("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(name)], ticks[int(name)] = _parent_and_ticks(int(name))
    counted, added = set(), {root} & set(ticks)
    while added:
        counted |= added
        added = {pid for pid, parent in parents.items() if parent in counted} - counted
    return sum(ticks[pid] for pid in counted) / TICKS_PER_SECOND


def _parent_and_ticks(pid: int) -> tuple[int, int]:
    """Parent and processor time of a process, the latter with that of waited-for children (proc(5))."""
    fields = _stat_fields(pid)
    return int(fields[1]), sum(map(int, fields[11:15]))


def _stat_fields(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the state on: the command's name before it, in brackets, may hold anything."""
    return read_small_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def limit_cpu_time(seconds: float) -> None:
    """Seconds of processor time from now on: the kernel ends what a parent can no longer end."""
    with contextlib.suppress(ValueError, OSError):
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        # two seconds above the parent's own limit, so that that one acts first and names the reason
        soft = int(used.ru_utime + used.ru_stime + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def limit_processes(maximum: int, in_user_namespace: bool) -> None:
    """Processes and threads of this user; it does not bind root (setrlimit(2))."""
    if not (in_user_namespace and _counted_by_namespace()):
        maximum += _tasks_of(os.getuid())  # counted over the whole system: those that run already are in the count
    set_limit(resource.RLIMIT_NPROC, maximum)


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
        return int(read_small_file("/proc/self/status").partition(b"VmHWM:")[2].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def process_times() -> dict[tuple[int, int], tuple[int, int]]:
    """Ticks of processor time of every process that /proc shows: its own, and of children that it has waited for.

    By number and start: numbers are used again.
    """
    times = {}
    for name in _pids("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = [int(field) for field in _stat_fields(int(name))[11:20]]
            times[int(name), fields[8]] = (fields[0] + fields[1], fields[2] + fields[3])
    return times


def processes() -> dict[int, int]:
    """Every process that /proc shows, with its parent; empty without /proc."""
    parents = {}
    for name in _pids("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(name)] = int(_stat_fields(int(name))[1])
    return parents


def read_small_file(path: str) -> bytes:
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
    for name in _pids("/proc"):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116  (a Path for each costs more than the call)
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
    return count or 2048


def _pids(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208
    return []
