"""A small warm process that builds a fresh sandbox for every command it is sent, runs the command, and ends all of it.

    run.py (our process) -> launcher.py (outside of the sandboxes, one per pool)
                              --fork--> one per command --fork--> supervisor.py (process 1 inside) -> the command

It is a process of its own because one with threads, such as a notebook, may not enter a user namespace; and it stays,
because starting Python costs several times what a fork and a sandbox cost. Modules of ours that run inside are imported
here once. Nothing that belongs to a case is ever sent here: programs and tests go through pipes into the sandbox.

For every command it gets the ends of pipes, among them a lifeline that nobody writes to. When the other end closes,
because the parent closed it or has died, everything that was started for the command is killed. Standard library only.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from importlib import import_module

from offleash.verifiers.sandbox.isolation import (
    INFO_FD,
    JoinedSandbox,
    bubblewrap_command,
    build_root,
    enter_user_namespace,
)
from offleash.verifiers.sandbox.limits import (
    NO_NEW_PRIVILEGES,
    PDEATHSIG,
    SUBREAPER,
    prctl,
    processes,
)
from offleash.verifiers.sandbox.supervisor import EXIT_TIME, run_command, supervise

EXIT_NO_SANDBOX = 125  # exit code: the isolation could not be built; the reason is on the standard error
MAX_REQUEST_BYTES = 1 << 17
FIRST_FD = 100  # descriptors of a request are moved here and above, out of the way of their places
MAX_FDS = 16  # of one request, at most
PID_FORMAT = struct.Struct("=i")


def main(arguments: list[str]) -> None:
    """Serve requests from a socket until its other end closes: its descriptor, then the modules to import."""
    requests = socket.socket(fileno=int(arguments[0]))
    for module in arguments[1:]:
        import_module(module)
    gc.freeze()  # what is shared with every fork stays shared: no collector writes into it
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        request, fds, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, MAX_FDS)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            _run(json.loads(request), fds)
        for fd in fds:
            os.close(fd)


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(spec: dict[str, object], fds: list[int]) -> None:
    """Run one command; its exit code, or the broken limit's, goes to the descriptor `status`. Never returns.

    The descriptors: lifeline, status, standard input, output and error, and what the command gets as 3, 4, ...
    """
    os.setsid()
    os.write(fds[1], PID_FORMAT.pack(os.getpid()))
    fds = [os.dup2(fd, FIRST_FD + place, inheritable=False) for place, fd in enumerate(fds)]
    lifeline, status, *command_fds = fds
    for place, fd in enumerate(command_fds):
        os.dup2(fd, place)
    os.closerange(len(command_fds), FIRST_FD)
    os.closerange(FIRST_FD + 2, FIRST_FD + MAX_FDS)
    prctl(SUBREAPER, 1)  # what it starts comes back to it when orphaned, however often it forked
    folder = None
    code = EXIT_NO_SANDBOX
    try:
        if spec["backend"] == "namespaces":
            child = _in_namespaces(spec, fds[:2])
        elif spec["backend"] == "bwrap":
            child = _in_bubblewrap(spec, fds[:2], len(command_fds))
        else:
            import shutil
            import tempfile

            folder = tempfile.mkdtemp(prefix="offleash-", dir=str(spec["folder"]))
            child = _start_unisolated(spec, folder, fds[:2])
    except OSError as error:
        _print_error(error)
    else:
        os.closerange(3, len(command_fds))
        code = _wait_for_end(child, lifeline)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # the reader may have closed the pipe
        os.write(status, bytes([code]))
    os._exit(0)


def _in_namespaces(spec: dict[str, object], own_fds: list[int]) -> int:
    """Build the isolation by system calls; the child is process 1 of its namespace and becomes the supervisor."""
    enter_user_namespace(as_owner=bool(spec["as_owner"]))
    child = os.fork()
    if child == 0:
        _enter_child(own_fds)
        try:
            build_root(spec)
        except OSError as error:
            _print_error(error)
            os._exit(EXIT_NO_SANDBOX)
        supervise(spec)
    return child


def _in_bubblewrap(spec: dict[str, object], own_fds: list[int], command_fds: int) -> int:
    """Have bwrap build the isolation; the child joins it, also as process 1, or is a supervisor that bwrap starts."""
    has_nobody = False
    if os.geteuid() == 0 and not spec["as_owner"]:
        # root is not bound in its number of processes: a namespace that also knows nobody lets the command be nobody
        has_nobody = enter_user_namespace(new_pid_namespace=False)
    command = bubblewrap_command(spec, has_nobody)
    if spec["starts_python"]:
        child = os.fork()
        if child == 0:
            _enter_child(own_fds)
            _execute(command, spec)
        return child
    stdin, waiting = os.pipe()  # `cat` waits for its input to end, and says by its output that the sandbox is built
    ready_pipe, stdout = os.pipe()
    info, info_write = os.pipe()
    builder = os.fork()
    if builder == 0:
        _enter_child(own_fds)
        info_write = os.dup2(info_write, FIRST_FD)
        for fd, place in ((stdin, 0), (stdout, 1), (info_write, INFO_FD)):
            os.dup2(fd, place)
        os.closerange(INFO_FD + 1, FIRST_FD + MAX_FDS)  # the command's pipes among them: their end is its end
        _execute(command, spec)
    for fd in (stdin, stdout, info_write):
        os.close(fd)
    os.write(waiting, b".")
    ready, _, _ = select.select([ready_pipe, own_fds[0]], [], [])
    if ready_pipe not in ready or not os.read(ready_pipe, 1):
        return builder  # it says on the standard error what it could not build; or nobody wants it any more
    sandbox = JoinedSandbox(int(json.loads(os.read(info, 4096))["child-pid"]))
    sandbox.enter_user_namespace()
    child = os.fork()
    if child == 0:
        _enter_child(own_fds)
        try:
            sandbox.enter()
        except OSError as error:
            _print_error(error)
            os._exit(EXIT_NO_SANDBOX)
        os.closerange(command_fds, FIRST_FD)  # bwrap and `cat` end now; the namespaces last as long as this process
        supervise(spec)
    os.closerange(command_fds, FIRST_FD)
    return child


def _execute(command: list[str], spec: dict[str, object]) -> None:
    try:
        os.execve(command[0], command, spec["environment"])  # type: ignore[arg-type]
    except OSError as error:
        _print_error(error)
    os._exit(EXIT_NO_SANDBOX)


def _start_unisolated(spec: dict[str, object], folder: str, own_fds: list[int]) -> int:
    """No isolation (--trust-code): the command under limits, in a scratch folder, and no supervisor."""
    child = os.fork()
    if child == 0:
        _enter_child(own_fds)
        prctl(NO_NEW_PRIVILEGES, 1)
        run_command(spec, folder)
    return child


def _enter_child(own_fds: list[int]) -> None:
    """Close what the launcher alone holds: a copy inside could be read, written or kept open. End with the launcher."""
    for fd in own_fds:
        os.close(fd)
    prctl(PDEATHSIG, signal.SIGKILL)


def _wait_for_end(child: int, lifeline: int) -> int:
    """Wait for the child's end or the lifeline's, then for the end of all the rest; the child's exit code."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # the ends of the pipes belong to the command alone
        os.dup2(devnull, standard)
    # no thread waits on the lifeline: one that has left its process namespace may not start threads
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        # before waiting: a child that ended between two looks has already raised its SIGCHLD
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            _kill_descendants(child)
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGXCPU:
                return EXIT_TIME
            return code if code >= 0 else 0  # killed by a signal: the command's affair, not a broken limit
        if pid:
            continue
        ready, _, _ = select.select([lifeline, wakeup_read], [], [])
        if wakeup_read in ready:
            os.read(wakeup_read, 4096)
        if lifeline in ready:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            _kill_descendants(child)
            return 0


def _kill_descendants(child: int) -> None:
    """Kill everything that was started in the child's session or came back to this process.

    In namespaces the kernel has done so already. It matters for trusted code, which may have made sessions of its own:
    as subreaper this process becomes the parent of every orphan, so that killing goes on until there is none.
    """
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    own_pid = os.getpid()
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return  # the usual case: nothing is left, and /proc need not be searched
        for pid in [pid for pid, parent in processes().items() if parent == own_pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _print_error(error: OSError) -> None:
    sys.stderr.write(f"{error.filename or 'the sandbox'}: {error.strerror} (errno {error.errno})\n")
    sys.stderr.flush()
