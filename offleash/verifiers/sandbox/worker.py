"""A warm process that judges case after case: loads one verifier's module, reads cases, writes judgements.

Started by worker_handle.py in a fresh Python. What libraries or answers print is discarded: the pipes to the parent
are moved away from standard output first. Where the verifier evaluates model-written text, every case is judged in its
own fork, so that nothing a text does to the interpreter outlives its case.

Three manners: `plain` decides in this process (our own code, trusted); `forks` decides each case in a fork, killed with
its process group; `alone` also kills whatever left that group, which is safe only in a process namespace of our own.
"""

import fcntl
import importlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping

from offleash.verifiers.sandbox.clock import CaseClock, ExceededLimit
from offleash.verifiers.sandbox.limits import (
    DUMPABLE,
    LINUX,
    cpu_time,
    limit_cpu_time,
    limit_memory,
    peak_memory,
    prctl,
    reap,
)
from offleash.verifiers.sandbox.messages import MalformedMessageError, receive, send, take_message
from offleash.verifiers.sandbox.supervisor import EXIT_MEMORY
from offleash.verifiers.verifier import Case, Judgement

Decide = Callable[[Case], Judgement]
MAX_REPLY_BYTES = 64 << 20  # bytes from a fork: it may have been taken over, and must not fill this process's memory


def main(arguments: list[str]) -> None:
    """Serve until the requests end: module, bytes of memory, lifeline or -1, and `plain`, `forks` or `alone`."""
    module, memory, lifeline, fork_mode = arguments[0], int(arguments[1]), int(arguments[2]), arguments[3]
    own_pid = os.getpid()
    requests, replies = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(devnull, 1)
    _end_with_parent(lifeline, memory)
    try:
        loaded = importlib.import_module(module)
        decide: Decide = loaded.decide
        getattr(loaded, "warm", _skip_warm_up)()  # where it is slow to begin: the first case's time is its own
    except BaseException as error:
        send(replies, {"trouble": describe(error), "missing": isinstance(error, ModuleNotFoundError)})
        return
    os.dup2(devnull, 2)  # only now: an import that fails explains itself on the standard error
    limit_memory(memory)
    if fork_mode != "plain":
        prctl(DUMPABLE, 0)  # a fork cannot reach into this process
    send(replies, {"ready": True})
    while (request := receive(requests)) is not None:
        assert isinstance(request, dict)
        if fork_mode == "plain":
            reply = judge_request(decide, request, memory)
            if os.getpid() != own_pid:
                os._exit(0)  # forked by what was called: a second reply would be taken for that of the next case
            send(replies, reply)
        else:
            send(
                replies, _judge_in_fork(decide, request, memory, (requests, replies), single_case=fork_mode == "alone")
            )


def _skip_warm_up() -> None:
    """What a verifier does to get warm that starts at once."""


def judge_request(decide: Decide, request: Mapping[str, object], memory: int) -> dict[str, object]:
    """The verifier's judgement as a message; whatever it raises is a failure of the verifier, in words."""
    started = time.process_time()
    reply: dict[str, object] = {
        "verdict": "failed",
        "reason": "",
        "score": None,
        "solution": None,
        "replace_worker": False,
    }
    try:
        limit_cpu_time(float(str(request["seconds"])))
        case = Case(
            str(request["answer"]),
            None if request["gold"] is None else str(request["gold"]),
            str(request["question"]),
            dict(request["details"]),  # type: ignore[call-overload]
        )
        judgement = decide(case)
        reply |= {"verdict": judgement.verdict.value, "reason": judgement.reason[:2000]}
        reply |= {"score": judgement.score, "solution": judgement.solution}
    except MemoryError:
        reply |= {"reason": f"memory limit of {memory / 2**30:.3g} GiB", "replace_worker": True}
    except RecursionError:
        reply["reason"] = "nested too deeply for the verifier"
    except BaseException as error:  # a verifier's crash says something about the verifier, not about the model
        reply["reason"] = describe(error)
    return reply | {"seconds": time.process_time() - started, "peak": peak_memory()}


def describe(error: BaseException) -> str:
    """An exception in one line."""
    try:
        message = str(error)
    except BaseException:
        message = ""
    return f"{type(error).__name__}: {message}"[:300].strip(": \n")


def _judge_in_fork(
    decide: Decide, request: Mapping[str, object], memory: int, own_fds: tuple[int, int], single_case: bool
) -> dict[str, object]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (read_end, *own_fds):
            os.close(fd)
        os.setsid()
        send(write_end, judge_request(decide, request, memory))
        os._exit(0)
    os.close(write_end)
    seconds, wall_factor = float(str(request["seconds"])), float(str(request["wall_factor"]))
    clock = CaseClock(seconds, wall_factor)
    reply, reason, retry = _read_reply(read_end, child, clock)
    os.close(read_end)
    used = max(clock.used, cpu_time(child))
    end = _describe_exit(reap(child, single_case))
    if reply is None:
        reason = reason.format(end=end)
        reply = {"verdict": "failed", "reason": reason, "score": None, "solution": None, "retry": retry}
    return reply | {"replace_worker": False, "peak": 0, "seconds": min(seconds, used)}


def _read_reply(read_end: int, child: int, clock: CaseClock) -> tuple[dict[str, object] | None, str, bool]:
    """The fork's message; or None, why there is none, and whether another try may bring one."""
    buffer = bytearray()
    while True:
        if not select.select([read_end], [], [], max(0.0, clock.next_check - time.monotonic()))[0]:
            if exceeded := clock.check([child]):
                return None, clock.reason(exceeded), exceeded is not ExceededLimit.CPU_TIME
            continue
        chunk = os.read(read_end, 1 << 16)
        buffer += chunk
        try:
            message = take_message(buffer)
        except MalformedMessageError:
            return None, "its process sent an unreadable reply", False
        if isinstance(message, dict):
            return message, "", False
        if message is not None or len(buffer) > MAX_REPLY_BYTES:
            return None, "its process sent an unreadable reply", False
        if not chunk:
            return None, "its process ended without a reply ({end})", False


def _describe_exit(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _end_with_parent(lifeline: int, memory: int) -> None:
    """End this process when the other end of the lifeline closes: when the parent is gone, however it went."""
    if lifeline < 0:
        return
    if not LINUX:
        threading.Thread(target=_watch_parent, args=(lifeline, memory), daemon=True).start()
        return
    # SIGIO ends a process that does not expect it; unlike a thread it needs no turn at the interpreter, which one
    # long multiplication can hold for hours
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        sys.exit(1)


def _watch_parent(lifeline: int, memory: int) -> None:
    """Where there is no such signal and no limit of address space: look every tenth of a second."""
    while not select.select([lifeline], [], [], 0.1)[0]:
        if peak_memory() > memory:
            os._exit(EXIT_MEMORY)
    os._exit(1)
