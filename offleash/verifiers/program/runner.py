"""Runs a model's program on the inputs of its tests inside the sandbox, and reports what came out, input by input.

Started by decide.py. The model's code always runs in a fork without a pipe to the outside; only this process replies.
Its forks cannot read or write its memory (PR_SET_DUMPABLE), and if one of them kills it there is no reply, hence no
success.
"""

import contextlib
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import cache
from types import CodeType, ModuleType
from typing import Any

from offleash.verifiers.program.assembly import CONTEST, CONTEST_MODULES, whole
from offleash.verifiers.sandbox.limits import DUMPABLE, prctl, reap
from offleash.verifiers.sandbox.messages import GarbledError, receive, send, taken

Job = dict[str, Any]  # a message: see program.decide
for _name in CONTEST_MODULES:  # in the launcher, once for all programs
    importlib.import_module(_name)
RAISED = 70  # exit code of a program that ended in an exception: EX_SOFTWARE of sysexits.h


def main(arguments: list[str]) -> None:
    """Read one job, run it, answer; `alone` when the process namespace is its own."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    prctl(DUMPABLE, 0)  # before the first fork: forks of the same user could otherwise write into this process
    job = receive(requests)
    assert isinstance(job, dict)
    os.close(requests)
    job |= {"alone": arguments == ["alone"]}
    send(replies, {"ready": True})
    try:
        KINDS[job["kind"]](job, lambda message: send(replies, message))
        send(replies, {"end": True})
    except SyntaxError as error:
        send(replies, {"wrong": f"syntax error: {error.msg} (line {error.lineno})"})
    except Exception as error:
        send(replies, {"wrong": f"{type(error).__name__}: {error}"[:300]})


def _stdin(job: Job, say: Callable[[object], None]) -> None:
    """The whole program once for each input."""
    codes = [compile(source, "<program>", "exec", dont_inherit=True) for source in whole(job["answer"], job["partial"])]
    prelude = _contest()
    for index, text in enumerate(job["inputs"]):
        stdin_fd, errors = _scratch(text.encode("utf-8", "surrogatepass")), _scratch(b"")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            for fd, standard in ((stdin_fd, 0), (writing, 1), (errors, 2)):
                os.dup2(fd, standard)
            os.closerange(3, 256)
            os.setsid()
            _as_main(prelude, codes)
            raise SystemExit  # the interpreter ends as after any program: threads are waited for, output is flushed
        os.close(writing)
        output, whole_output = _output(reading, int(job["most"]))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if whole_output else 0
        reap(child, job["alone"])
        error = "" if whole_output else "it prints far more than is expected"
        if whole_output and (code == RAISED or code < 0):
            error = _last_line(errors) if code == RAISED else f"it was killed by signal {-code}"
        say({"test": index, "output": output.decode("utf-8", "replace"), "trouble": error})
        for fd in (stdin_fd, errors, reading):
            os.close(fd)


def _call(job: Job, say: Callable[[object], None]) -> None:
    """A function, or a method of class Solution, called for each input; in one process, as contest sites do."""
    codes = [compile(source, "<program>", "exec", dont_inherit=True) for source in whole(job["answer"], job["partial"])]
    prelude = _contest()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 3)
        os.closerange(4, 256)
        os.setsid()
        _answer_calls(prelude, codes, job, 3)
        os._exit(0)
    os.close(writing)
    inbox, bound = bytearray(), int(job["most"])
    while chunk := os.read(reading, 1 << 16):
        inbox += chunk
        with contextlib.suppress(GarbledError):
            while (message := taken(inbox)) is not None:
                if isinstance(message, dict):
                    say({key: message[key] for key in ("test", "result", "trouble") if key in message})
        if len(inbox) > bound:
            break
    reap(child, job["alone"])


def _answer_calls(prelude: dict[str, object], codes: list[CodeType], job: Job, fd: int) -> None:
    """In the fork: run the program, call its function for each input, write every result as JSON."""
    index = 0
    try:
        module = _module("solution", prelude)
        for code in codes:
            exec(code, module.__dict__)
        holder = module.__dict__.get("Solution")
        target = getattr(holder() if holder else module, job["entry_point"])
        for index, text in enumerate(job["inputs"]):
            arguments = [json.loads(line) for line in text.split("\n") if line.strip()]
            send(fd, {"test": index, "result": json.loads(json.dumps(target(*arguments), default=_scalar))})
    except BaseException as error:
        send(fd, {"test": index, "trouble": f"{type(error).__name__}: {error}"[:300]})


KINDS: dict[str, Callable[[Job, Callable[[object], None]], None]] = {
    "stdin": _stdin,
    "call": _call,
}


@cache
def _contest() -> dict[str, object]:
    """Names that contest sites give every program; loaded once, before the forks."""
    names: dict[str, object] = {}
    exec(CONTEST, names)
    del names["__builtins__"]
    return names


def _module(name: str, names: dict[str, object]) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    return module


def _as_main(prelude: dict[str, object], codes: list[CodeType]) -> None:
    """Run code as a script of its own; an exception is shown on the standard error, as ever."""
    module = _module("__main__", prelude)
    sys.argv = ["program.py"]
    try:
        for code in codes:
            exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc(limit=-3)
        importlib.import_module("threading").__dict__["_shutdown"]()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(RAISED)


def _output(reading: int, most: int) -> tuple[bytes, bool]:
    """What it prints until it closes its output; whether that was all."""
    output = bytearray()
    while chunk := os.read(reading, 1 << 16):
        output += chunk
        if len(output) > most:
            return bytes(output[:most]), False
    return bytes(output), True


def _scratch(content: bytes) -> int:
    """An open file without a name."""
    name = f".{os.getpid()}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.unlink(name)  # noqa: PTH108
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _last_line(fd: int) -> str:
    size = os.lseek(fd, 0, os.SEEK_END)
    os.lseek(fd, max(0, size - 2000), os.SEEK_SET)
    lines = os.read(fd, 2000).decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "it ended in an exception"


def _scalar(value: object) -> object:
    """NumPy's scalars compare like Python's; nothing else that JSON does not know is an answer."""
    if type(value).__module__ == "numpy" and (item := getattr(value, "item", None)) is not None:
        return item()
    raise TypeError(f"it returned a {type(value).__name__}")
