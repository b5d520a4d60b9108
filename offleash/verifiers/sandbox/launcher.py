"""Started by run.py in a fresh Python: builds the isolation, starts the command in it, and ends all of it.

run.py (our process) -> launcher.py (outside of the sandbox) -> supervisor.py (process 1 inside) -> the command. The
launcher is a process of its own because one with threads, such as a notebook, may not enter a user namespace.

It holds one end of a lifeline, a pipe that nobody writes to. When the other end closes, because the parent closed it or
has died, everything it started is killed. Standard library only: it must start in milliseconds.
"""

import contextlib
import json
import os
import select
import signal
import sys

from offleash.verifiers.sandbox.limits import NO_NEW_PRIVILEGES, PDEATHSIG, SUBREAPER, prctl, processes
from offleash.verifiers.sandbox.supervisor import exec_command, supervise

CANNOT_ISOLATE = 125  # exit code: the isolation could not be built; the reason is on the standard error


def main(arguments: list[str]) -> None:
    """Run a specification (see sandbox.specification) and exit with the supervisor's code."""
    spec = json.loads(arguments[0])
    prctl(SUBREAPER, 1)  # what it starts comes back to it when orphaned, however often it forked
    folder = None
    try:
        if spec["route"] == "namespaces":
            child = _in_namespaces(spec)
        elif spec["route"] == "bwrap":
            child = _in_bubblewrap(spec)
        else:
            import shutil
            import tempfile

            folder = tempfile.mkdtemp(prefix="offleash-")
            child = _trusted(spec, folder)
    except OSError as error:
        _refuse(error)
    code = _wait_for_child(child, spec["lifeline"])
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _in_namespaces(spec: dict[str, object]) -> int:
    """Build the isolation by system calls; the child is process 1 of its namespace and becomes the supervisor."""
    from offleash.verifiers.sandbox.isolation import build_root, enter_user_namespace

    enter_user_namespace(as_owner=bool(spec["as_owner"]))
    child = os.fork()
    if child == 0:
        os.close(_lifeline(spec))  # held by the launcher alone: a copy inside could be read, or kept open
        prctl(PDEATHSIG, signal.SIGKILL)
        try:
            build_root(spec)
        except OSError as error:
            _refuse(error)
        supervise(spec)
    return child


def _in_bubblewrap(spec: dict[str, object]) -> int:
    """Have bwrap build the isolation; it starts the supervisor, also as process 1."""
    from offleash.verifiers.sandbox.isolation import bubblewrap_command

    maps_several_ids = False
    if os.geteuid() == 0 and not spec["as_owner"]:
        from offleash.verifiers.sandbox.isolation import enter_user_namespace

        # root is not bound in its number of processes: a namespace that also knows nobody lets the command be nobody
        maps_several_ids = enter_user_namespace(pids=False)
    child = os.fork()
    if child == 0:
        os.close(_lifeline(spec))
        prctl(PDEATHSIG, signal.SIGKILL)
        command = bubblewrap_command(spec, maps_several_ids)
        try:
            os.execve(command[0], command, spec["environment"])  # type: ignore[arg-type]
        except OSError as error:
            _refuse(error)
    return child


def _trusted(spec: dict[str, object], folder: str) -> int:
    """No isolation (--trust-code): the command under limits, in a scratch folder, and no supervisor."""
    child = os.fork()
    if child == 0:
        os.close(_lifeline(spec))
        prctl(PDEATHSIG, signal.SIGKILL)
        prctl(NO_NEW_PRIVILEGES, 1)
        exec_command(spec, folder)
    return child


def _wait_for_child(child: int, lifeline: int) -> int:
    """Wait for the child's end or the lifeline's, then for the end of all the rest; the child's exit code."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the ends of the pipes belong to the command alone
        os.dup2(null, standard)
    # no thread waits on the lifeline: one that has left its process namespace may not start threads
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        # before waiting: a child that ended between two looks has already raised its SIGCHLD
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            _kill_the_rest(child)
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 0  # killed by a signal: the command's affair, not a broken limit
        if pid:
            continue
        ready, _, _ = select.select([lifeline, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
        if lifeline in ready:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            _kill_the_rest(child)
            return 0


def _kill_the_rest(child: int) -> None:
    """Kill everything that was started in the child's session or came back to this process.

    In namespaces the kernel has done so already. It matters for trusted code, which may have made sessions of its own:
    as subreaper this process becomes the parent of every orphan, so that killing goes on until there is none.
    """
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    own = os.getpid()
    while orphans := [pid for pid, parent in processes().items() if parent == own]:
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _lifeline(spec: dict[str, object]) -> int:
    return int(str(spec["lifeline"]))


def _refuse(error: OSError) -> None:
    sys.stderr.write(f"{error.filename or 'the sandbox'}: {error.strerror} (errno {error.errno})\n")
    sys.stderr.flush()
    os._exit(CANNOT_ISOLATE)
