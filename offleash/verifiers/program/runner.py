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

from offleash.verifiers.program.assembly import CONTEST_MODULES, CONTEST_PRELUDE, program_sources
from offleash.verifiers.sandbox.limits import DUMPABLE, prctl, reap
from offleash.verifiers.sandbox.messages import MalformedMessageError, receive, send, take_message

Job = dict[str, Any]  # a message: see program.decide
for _name in CONTEST_MODULES:  # in the launcher, once for all programs
    importlib.import_module(_name)
EXIT_RAISED = 70  # exit code of a program that ended in an exception: EX_SOFTWARE of sysexits.h


def main(arguments: list[str]) -> None:
    """Read one job, run it, answer; `alone` when the process namespace is its own."""
    requests, replies = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    prctl(DUMPABLE, 0)  # before the first fork: forks of the same user could otherwise write into this process
    job = receive(requests)
    assert isinstance(job, dict)
    os.close(requests)
    job |= {"alone": arguments == ["alone"]}
    send(replies, {"ready": True})
    try:
        RUNNERS[job["kind"]](job, lambda message: send(replies, message))
        send(replies, {"end": True})
    except SyntaxError as error:
        send(replies, {"wrong": f"syntax error: {error.msg} (line {error.lineno})"})
    except Exception as error:
        send(replies, {"wrong": f"{type(error).__name__}: {error}"[:300]})


def _run_on_inputs(job: Job, reply: Callable[[object], None]) -> None:
    """The whole program once for each input."""
    codes = [
        compile(source, "<program>", "exec", dont_inherit=True)
        for source in program_sources(job["answer"], job["partial"])
    ]
    prelude = _contest_names()
    for index, text in enumerate(job["inputs"]):
        stdin_fd, stderr_fd = _unnamed_file(text.encode("utf-8", "surrogatepass")), _unnamed_file(b"")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            for fd, standard in ((stdin_fd, 0), (write_end, 1), (stderr_fd, 2)):
                os.dup2(fd, standard)
            os.closerange(3, 256)
            os.setsid()
            _run_as_main(prelude, codes)
            raise SystemExit  # the interpreter ends as after any program: threads are waited for, output is flushed
        os.close(write_end)
        output, is_complete = _read_output(read_end, int(job["max_output"]))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if is_complete else 0
        reap(child, job["alone"])
        error = "" if is_complete else "it printed far more than expected"
        if is_complete and (code == EXIT_RAISED or code < 0):
            error = _last_line(stderr_fd) if code == EXIT_RAISED else f"it was killed by signal {-code}"
        reply({"test": index, "output": output.decode("utf-8", "replace"), "trouble": error})
        for fd in (stdin_fd, stderr_fd, read_end):
            os.close(fd)


def _run_calls(job: Job, reply: Callable[[object], None]) -> None:
    """A function, or a method of class Solution, called for each input; in one process, as contest sites do."""
    codes = [
        compile(source, "<program>", "exec", dont_inherit=True)
        for source in program_sources(job["answer"], job["partial"])
    ]
    prelude = _contest_names()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_end, 3)
        os.closerange(4, 256)
        os.setsid()
        _call_function(prelude, codes, job, 3)
        os._exit(0)
    os.close(write_end)
    buffer, max_output = bytearray(), int(job["max_output"])
    while chunk := os.read(read_end, 1 << 16):
        buffer += chunk
        with contextlib.suppress(MalformedMessageError):
            while (message := take_message(buffer)) is not None:
                if isinstance(message, dict):
                    reply({key: message[key] for key in ("test", "result", "trouble") if key in message})
        if len(buffer) > max_output:
            break
    reap(child, job["alone"])


def _call_function(prelude: dict[str, object], codes: list[CodeType], job: Job, fd: int) -> None:
    """In the fork: run the program, call its function for each input, write every result as JSON."""
    index = 0
    try:
        module = _module("solution", prelude)
        for code in codes:
            exec(code, module.__dict__)
        solution_class = module.__dict__.get("Solution")
        target = getattr(solution_class() if solution_class else module, job["entry_point"])
        for index, text in enumerate(job["inputs"]):
            arguments = [json.loads(line) for line in text.split("\n") if line.strip()]
            send(fd, {"test": index, "result": json.loads(json.dumps(target(*arguments), default=_numpy_scalar))})
    except BaseException as error:
        send(fd, {"test": index, "trouble": f"{type(error).__name__}: {error}"[:300]})


RUNNERS: dict[str, Callable[[Job, Callable[[object], None]], None]] = {
    "stdin": _run_on_inputs,
    "call": _run_calls,
}


@cache
def _contest_names() -> dict[str, object]:
    """Names that contest sites give every program; loaded once, before the forks."""
    names: dict[str, object] = {}
    exec(CONTEST_PRELUDE, names)
    del names["__builtins__"]
    return names


def _module(name: str, names: dict[str, object]) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    return module


def _run_as_main(prelude: dict[str, object], codes: list[CodeType]) -> None:
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
        os._exit(EXIT_RAISED)


def _read_output(read_end: int, max_output: int) -> tuple[bytes, bool]:
    """What it prints until it closes its output; whether that was all."""
    output = bytearray()
    while chunk := os.read(read_end, 1 << 16):
        output += chunk
        if len(output) > max_output:
            return bytes(output[:max_output]), False
    return bytes(output), True


def _unnamed_file(content: bytes) -> int:
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
    return lines[-1][:300] if lines else "it raised an exception"


def _numpy_scalar(value: object) -> object:
    """NumPy's scalars compare like Python's; nothing else that JSON does not know is an answer."""
    if type(value).__module__ == "numpy" and (item := getattr(value, "item", None)) is not None:
        return item()
    raise TypeError(f"it returned a {type(value).__name__}")
