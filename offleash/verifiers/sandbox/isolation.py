"""Isolation by Linux namespaces or by bubblewrap: no network, no other processes, a file system of read-only binds.

What each layer takes away from the code inside:

* user namespace: the caller's identity. Inside it is nobody, with no rights outside, and cannot make namespaces itself;
* process namespace: sight of other processes; when its first process ends, the kernel ends all the rest;
* network namespace: every interface, the host's loopback included;
* mount namespace and pivot_root: every file but the binds of the specification, which are read-only;
* IPC, UTS and cgroup namespaces: shared memory, the host's name, and the host's cgroup paths.

The order matters: the user namespace comes first, since it gives the rights for all the others; mounts are made before
the root changes, since the old root is unreachable afterwards; the root is made read-only last.

See user_namespaces(7), mount_namespaces(7), pivot_root(2), bwrap(1). Called in launcher.py. Standard library only; the
calls go through libc because `os.unshare` is newer than the Python we support.
"""

import contextlib
import ctypes
import json
import os
from pathlib import Path

from offleash.verifiers.sandbox.limits import MAX_FILES

# Flags of clone(2), mount(2) and umount2(2), which Python does not name.
NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
# Flags of statvfs(3) -> mount(2) that a remount must repeat: in a user namespace the kernel refuses to clear them.
REMOUNT_FLAGS = {2: NOSUID, 4: NODEV, 8: NOEXEC, 1024: 1024, 2048: 2048, 4096: 1 << 21}
MNT_DETACH = 2
NOBODY = 65534  # the kernel's overflow user
# All that Python needs: no terminal, no shared memory, and no /dev/zero, whose shared mappings hold memory that no
# process shows.
DEVICES = ("null", "full", "random", "urandom")
OLD_ROOT, NEW_ROOT = "/old", "/new"  # the host's root and the one being built, while both are there


def enter_user_namespace(new_pid_namespace: bool = True, as_owner: bool = False) -> bool:
    """Enter a user namespace of our own, and a process namespace for the children.

    Args:
        pids: whether the children get a process namespace; bubblewrap makes its own.
        as_owner: map only the caller, as nobody: where root's Python is closed to the real nobody.

    Returns:
        Whether the namespace holds both root and nobody, so that the command can become nobody. Otherwise the caller is
        the one user in it, called nobody.
    """
    user, group = os.geteuid(), os.getegid()
    has_nobody = _unshare_and_map_users(
        NEWUSER | (NEWPID if new_pid_namespace else 0), map_nobody=user == 0 and not as_owner
    )
    if has_nobody:
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    else:
        Path("/proc/self/setgroups").write_text("deny")  # or the kernel refuses the group map of an unprivileged user
        Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")
    if new_pid_namespace or has_nobody:
        with contextlib.suppress(OSError):  # no namespaces within this one: less of the kernel within reach
            Path("/proc/sys/user/max_user_namespaces").write_text("0")
    return has_nobody


def build_root(spec: dict[str, object]) -> None:
    """Own network, IPC, host name and mounts; the root becomes a small file system with only what the command needs.

    Two pivots: the first moves the host's root to /old, so that binds have a source that nothing mounted later can
    hide; the second makes /new the root and drops the scratch file system that held both.
    """
    _unshare(NEWNS | NEWNET | NEWIPC | NEWUTS)
    with contextlib.suppress(OSError):
        _unshare(NEWCGROUP)
    disk = int(spec["limits"]["disk"])  # type: ignore[index]
    _mount("none", "/", None, REC | PRIVATE)  # nothing mounted from here on shows outside
    _mount("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, "size=4m,mode=755")
    for folder in (OLD_ROOT, NEW_ROOT):
        os.mkdir("/tmp" + folder)  # noqa: PTH102
    _pivot("/tmp", "/tmp" + OLD_ROOT)
    os.chdir("/")
    _mount("tmpfs", NEW_ROOT, "tmpfs", NOSUID | NODEV, "size=4m,mode=755")
    for folder in ("/tmp", "/proc", "/dev"):
        os.mkdir(NEW_ROOT + folder)  # noqa: PTH102
    _mount("tmpfs", NEW_ROOT + "/tmp", "tmpfs", NOSUID | NODEV, f"size={disk},nr_inodes={MAX_FILES},mode=1777")
    _bind_files(spec)
    with contextlib.suppress(OSError):  # where a container masks parts of /proc the kernel refuses a fresh one
        _mount("proc", NEW_ROOT + "/proc", "proc", NOSUID | NODEV | NOEXEC)
    _call("umount2", OLD_ROOT.encode(), MNT_DETACH)
    os.chdir(NEW_ROOT)
    _pivot(".", ".")  # pivot_root(2): with both the same, the old root lies over the new one and is unmounted at once
    _call("umount2", b".", MNT_DETACH)
    os.chdir("/")
    _mount("none", "/", None, REMOUNT | BIND | RDONLY | NOSUID | NODEV)
    _call("sethostname", b"sandbox", 7)


def _unshare_and_map_users(flags: int, map_nobody: bool) -> bool:
    """Unshare; with `map_nobody`, a helper maps root and nobody. Returns whether it could.

    Only a process outside of the namespace may map more than one user, so a fork that stays outside does it. It waits
    until this process has unshared: that closes the pipe.
    """
    if not map_nobody:
        _unshare(flags)
        return False
    read_end, write_end = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(write_end)
        os.read(read_end, 1)
        try:
            for kind in ("uid", "gid"):
                Path(f"/proc/{os.getppid()}/{kind}_map").write_text(f"0 0 1\n{NOBODY} {NOBODY} 1\n")
        except OSError:
            os._exit(1)
        os._exit(0)
    os.close(read_end)
    try:
        _unshare(flags)
    finally:
        os.close(write_end)
        _, status = os.waitpid(helper, 0)
    return status == 0


def _bind_files(spec: dict[str, object]) -> None:
    """Bind what the specification names, read-only, and the devices.

    A bind ignores a read-only flag when it is made: it takes a remount, and one for every mount below it.
    """
    binds: list[str] = spec["binds"]  # type: ignore[assignment]
    links: dict[str, str] = spec["links"]  # type: ignore[assignment]
    for path in binds:
        target = Path(NEW_ROOT + path)
        if Path(OLD_ROOT + path).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        _mount(OLD_ROOT + path, NEW_ROOT + path, None, BIND | REC)
    for mount in _mounts_under([NEW_ROOT + path for path in binds]):
        _mount("none", mount, None, REMOUNT | BIND | RDONLY | _remount_flags(mount))
    for device in DEVICES:
        Path(f"{NEW_ROOT}/dev/{device}").touch()
        _mount(f"{OLD_ROOT}/dev/{device}", f"{NEW_ROOT}/dev/{device}", None, BIND)
    for link, to in links.items():
        os.symlink(to, NEW_ROOT + link)  # noqa: PTH211


def _mounts_under(paths: list[str]) -> list[str]:
    """The mounts at the paths and those below them: a recursive bind takes them all, a remount only the first."""
    mounts = []
    for line in Path(f"{OLD_ROOT}/proc/self/mountinfo").read_text().splitlines():
        mount = line.split(" ")[4]  # proc(5): the mount point, with white space and backslash as octal escapes
        for code, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
            mount = mount.replace(code, character)
        if any(mount == path or mount.startswith(path + "/") for path in paths):
            mounts.append(mount)
    return mounts


def _remount_flags(path: str) -> int:
    flags = os.statvfs(path).f_flag
    return sum(flag for known, flag in REMOUNT_FLAGS.items() if flags & known) | NOSUID


def _unshare(flags: int) -> None:
    _call("unshare", flags)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    _call("mount", source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), data.encode())


def _pivot(new: str, old: str) -> None:
    _call("pivot_root", new.encode(), old.encode())


def _call(name: str, *arguments: object) -> None:
    """A call of libc that returns 0, or an OSError that says which call was refused and on what."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        number = ctypes.get_errno()
        path_text = next((f" {part.decode()}" for part in reversed(arguments[:2]) if isinstance(part, bytes)), "")
        raise OSError(number, os.strerror(number), f"{name}{path_text}")


# Isolation by bubblewrap, where it is installed: the command line that builds the same as the namespaces above.


TMPFS_SIZE_SINCE = (0, 8)  # from this version on --tmpfs takes a size; before it the supervisor alone bounds the disk


def bubblewrap_version(program: str) -> tuple[int, int] | None:
    """Version of a bwrap program, or None when it does not say."""
    import re  # the launcher does without these
    import subprocess

    try:
        completed = subprocess.run([program, "--version"], capture_output=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(rb"(\d+)\.(\d+)", completed)
    return (int(match[1]), int(match[2])) if match else None


PLACEHOLDER_PROGRAMS = ("/usr/bin/cat", "/bin/cat")  # what bwrap starts where its namespaces are joined
INFO_FD = 3  # where bwrap says which process it started
JOINED = {"mnt": NEWNS, "net": NEWNET, "ipc": NEWIPC, "uts": NEWUTS, "cgroup": NEWCGROUP}


def bubblewrap_command(spec: dict[str, object], already_in_user_namespace: bool) -> list[str]:
    """The command line of bwrap, which builds the same as `build_root`, and starts the supervisor or `cat` in it.

    In a user namespace that the launcher made, the supervisor starts as its root and becomes nobody by itself: for that
    it keeps the two capabilities to change users, and no other.
    """
    binds: list[str] = spec["binds"]  # type: ignore[assignment]
    links: dict[str, str] = spec["links"]  # type: ignore[assignment]
    limits: dict[str, int] = spec["limits"]  # type: ignore[assignment]
    command = [str(spec["bwrap"]), "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--as-pid-1", "--new-session"]
    command += ["--cap-drop", "ALL"]
    if already_in_user_namespace and spec["starts_python"]:
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    elif not already_in_user_namespace:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    if spec["has_tmpfs_size"]:
        command += ["--size", str(limits["disk"])]
    command += ["--tmpfs", "/tmp"]
    # its own way of making the folders above a bind copies their modes: nobody could not pass those of root's home
    for folder in sorted({str(above) for path in binds for above in Path(path).parents} | {"/dev"} - {"/", "/tmp"}):
        command += ["--dir", folder]
    for path in binds:
        command += ["--ro-bind", path, path]
    for device in DEVICES:
        command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for link, to in links.items():
        command += ["--symlink", to, link]
    command += ["--proc", "/proc", "--remount-ro", "/", "--chdir", "/tmp"]
    if spec["starts_python"]:
        supervisor: list[str] = spec["supervisor"]  # type: ignore[assignment]
        inside = {key: spec[key] for key in ("backend", "limits", "command", "environment")}
        return [*command, "--", *supervisor, json.dumps(inside)]
    waiting = next((path for path in PLACEHOLDER_PROGRAMS if os.path.exists(path)), PLACEHOLDER_PROGRAMS[0])  # noqa: PTH110
    return [*command, "--info-fd", str(INFO_FD), "--", waiting]


class JoinedSandbox:
    """The namespaces that bwrap has built around a process which does nothing but wait, joined by one of ours.

    bwrap can only start programs, and another Python with its imports costs ten times what the sandbox costs. A fork of
    the launcher that enters the same namespaces is isolated alike, and has all that it needs in memory. Its process
    namespace is its own, so that it is process 1; whoever enters a user namespace made for it has the right to do so.
    """

    def __init__(self, pid: int) -> None:
        """Open the namespaces of a process, as long as it is there."""
        self._user = _open_namespace(pid, "user")
        self._other_namespaces = {flag: _open_namespace(pid, name) for name, flag in JOINED.items()}
        self._root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY)

    def enter_user_namespace(self) -> None:
        """Enter its user namespace, and make a process namespace for the children."""
        if os.fstat(self._user).st_ino != os.stat("/proc/self/ns/user").st_ino:  # noqa: PTH116
            _call("setns", self._user, NEWUSER)
            with contextlib.suppress(OSError):
                Path("/proc/sys/user/max_user_namespaces").write_text("0")
        _unshare(NEWPID)

    def enter(self) -> None:
        """Enter the other namespaces, as the first process of its own, and see its own processes in /proc."""
        for flag, fd in self._other_namespaces.items():
            _call("setns", fd, flag)
        os.fchdir(self._root)
        # old versions of bwrap change the root of their process, not of the namespace
        root, seen = os.fstat(self._root), os.stat("/")  # noqa: PTH116
        if (root.st_dev, root.st_ino) != (seen.st_dev, seen.st_ino):
            os.chroot(".")
        os.chdir("/")
        _mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)


def _open_namespace(pid: int, name: str) -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
