"""Run assertions against a program that cannot tamper with them: two processes that exchange plain values.

One process runs the model's code and answers calls; the other runs the tests, in which the model's functions are
proxies that send the arguments over and bring the result back. So a program cannot pass by exiting, by printing, by
replacing `check`, `len` or `assert`, by walking the stack, or by returning an object that equals everything: only plain
values come back (unpickle.PLAIN_VALUES).

    runner.py --fork--> program's process   (model's code; reads calls, writes answers)
              --fork--> tests' process      (assertions on proxies; writes calls, reads answers, writes the result)

The program's process is forked before the tests are read from the pipe, so their text and the token of success are not
in its memory. The tests' process is never entered by model-written code, except in the case below.

Not covered: tests that use a class or a constant which the problem's reference program defines (a few of MBPP's) must
run in the program's own process. There the tests have their own copy of the builtins and success needs a secret that is
not in any namespace of the program, but code that searches the stack or the memory for it can pass itself. A program
cannot choose this: without such a reference, whatever it defines stays in a process of its own.
"""

import builtins
import importlib
import io
import os
import pickle
import struct
import sys
import traceback
from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType, GeneratorType, ModuleType
from typing import Any, cast

from offleash.verifiers.program.assembly import names_in
from offleash.verifiers.program.unpickle import PLAIN_VALUES, plain
from offleash.verifiers.sandbox.limits import reap
from offleash.verifiers.sandbox.messages import receive, send

LENGTH_PREFIX = struct.Struct(">Q")
# Values that tests only iterate over: pickle cannot carry them, an iterator over their elements can.
ITERABLES: tuple[type, ...] = (
    GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
Names = dict[str, object]
Job = dict[str, Any]  # a message: see program.decide


def run_tests(codes: list[CodeType], job: Job, read_tests: Callable[[], object]) -> dict[str, object]:
    """Run the program and its tests.

    Args:
        codes: the program, compiled.
        job: kind, prompt and entry point; `alone` when the process namespace is our own.
        read_tests: reads the second message of the job: assertions and the token of success.

    Returns:
        `{"passed": token}`, or `{"wrong": reason}`. The token proves that the message comes from the tests' process.
    """
    calls_out, calls_in = os.pipe()
    answers_out, answers_in = os.pipe()
    result_out, result_in = os.pipe()
    model = _run_in_fork((calls_out, answers_in), lambda calls, answers: _serve(codes, calls, answers))
    os.close(calls_out)
    os.close(answers_in)
    test_data = read_tests()  # only now: what is not yet in memory is not in the fork's memory
    assert isinstance(test_data, dict)
    tests = _run_in_fork((result_in, calls_in, answers_out), lambda *fds: _test(codes, job | test_data, *fds))
    for fd in (result_in, calls_in, answers_out):
        os.close(fd)
    message = receive(result_out)
    for child in (tests, model):
        reap(child, job["alone"])
    return message if isinstance(message, dict) else {"wrong": "the program ended before its tests had"}


def _run_in_fork(fds: tuple[int, ...], action: Callable[..., None]) -> int:
    """A fork that holds these descriptors and no others."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    # moved out of the way first: closing all others would otherwise have to step around them
    moved_fds = [os.dup2(fd, 200 + index) for index, fd in enumerate(fds)]
    os.closerange(3, 200)
    os.closerange(200 + len(fds), 256)
    try:
        action(*moved_fds)
    finally:
        os._exit(0)  # no cleanup: handlers that the program registered must not run, nor those of our parent


# The program's process: runs the model's code and answers calls of its functions.


def _serve(codes: list[CodeType], calls: int, answers: int) -> None:
    """Run the program, say what it defines, and answer calls of its functions."""
    try:
        names = _executed(codes)
    except BaseException as error:
        _write_message(answers, _pickled(("broken", _describe(error))))
        return
    _write_message(
        answers, _pickled({name: _kind(value) for name, value in names.items() if not name.startswith("__")})
    )
    while (call := _read_message(calls)) is not None:
        name, arguments, keywords = pickle.loads(call)  # from the process of the tests, which the model never reaches
        try:
            result = names[name](*arguments, **keywords)  # type: ignore[operator]
            reply = _pickled(("returned", result, arguments))
        except BaseException as error:
            reply = _pickled(("raised", type(error).__name__, _describe(error)))
        _write_message(answers, reply)


def _executed(codes: list[CodeType]) -> Names:
    """The names that the program defines, after running it as a module."""
    module = ModuleType("solution")
    sys.modules["solution"] = module
    for code in codes:
        exec(code, module.__dict__)
    return module.__dict__


def _kind(value: object) -> str:
    """What is sent to the tests' process about a name: functions become proxies, modules are imported there."""
    if isinstance(value, ModuleType):
        return "module " + value.__name__
    return "function" if callable(value) and not isinstance(value, type) else "other"


class _ValuePickler(pickle.Pickler):
    """Pickles values; those that equal plain ones become plain: named tuples, NumPy scalars, iterators.

    Pickling runs in the program's process and may run its code; nothing is decided there. Unpickling, in the tests'
    process, allows plain types only.
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, ITERABLES):
            return iter, (list(islice(cast(Iterable[object], value), 10_000_000)),)
        if isinstance(value, tuple):
            return tuple, (list(value),)
        if type(value).__module__ == "numpy" and (item := getattr(value, "item", None)) is not None:
            scalar = item()
            return type(scalar), (scalar,)
        return NotImplemented


def _pickled(value: object) -> bytes:
    file = io.BytesIO()
    _ValuePickler(file, protocol=4).dump(value)
    return file.getvalue()


# The tests' process: runs the assertions on proxies of the program's functions.


def _test(codes: list[CodeType], job: Job, result: int, calls: int, answers: int) -> None:
    """Run the tests and write the result; the token leaves the job before any test can see it."""
    token = job.pop("token")
    try:
        (_check if job["kind"] == "check" else _asserts)(codes, job, calls, answers)
    except BaseException as error:
        send(result, {"wrong": _failing_line(error)})
        return
    send(result, {"passed": token})


def _check(codes: list[CodeType], job: Job, calls: int, answers: int) -> None:
    """HumanEval: `check(function)`, among the names of the prompt."""
    entry = job["entry_point"]
    if _defined(answers).get(entry) is None:
        raise NameError(f"the program does not define {entry}")
    names: Names = {"__name__": "tests"}
    try:
        exec(job["prompt"], names)  # functions that the test may call beside the one that is tested
    except Exception:
        names = {"__name__": "tests"}
    names[entry] = _proxy(entry, calls, answers)
    exec(compile(job["test"], "<test>", "exec", dont_inherit=True), names)
    names["check"](names[entry])  # type: ignore[operator]


def _asserts(codes: list[CodeType], job: Job, calls: int, answers: int) -> None:
    """MBPP: assertions that name the program's functions."""
    defined = _defined(answers)
    tests = [job["setup"], *job["tests"]]
    used = names_in(tests) & set(defined)
    # `values` are what the reference program defines beside functions: a program cannot add to them, and so cannot
    # choose to have its tests run in a process that executes its code
    if any(defined[name] == "other" for name in used & set(job["values"])):
        names = _fresh_namespace(_executed(codes))
    else:
        names = {"__name__": "tests"}
        for name in used:
            module = defined[name].removeprefix("module ")
            is_module = defined[name].startswith("module ")
            names[name] = importlib.import_module(module) if is_module else _proxy(name, calls, answers)
    for test in tests:
        exec(compile(test, "<test>", "exec", dont_inherit=True), names)


def _fresh_namespace(names: Names) -> Names:
    """The program's names with builtins that it cannot have changed."""
    return names | {"__builtins__": dict(ORIGINAL_BUILTINS)}


ORIGINAL_BUILTINS = dict(vars(builtins))  # taken at import, before any model-written code has run in this process


def _defined(answers: int) -> dict[str, str]:
    """What the program says that it defines, name -> kind; an error with its own message where it did not run."""
    reply = plain(_read_message(answers) or _pickled(("broken", "the program ended before its tests")), PLAIN_VALUES)
    if isinstance(reply, dict):
        return reply
    raise RuntimeError(str(reply[1]) if isinstance(reply, tuple) else "the program ended before its tests")


def _proxy(name: str, calls: int, answers: int) -> Callable[..., object]:
    """A function that has the program's function called in the program's process."""

    def call_program(*arguments: object, **keywords: object) -> object:
        _write_message(calls, pickle.dumps((name, arguments, keywords), protocol=4))
        if (message := _read_message(answers)) is None:
            raise RuntimeError("the program ended during its tests")
        try:
            reply = plain(message, PLAIN_VALUES)
        except Exception:
            raise TypeError(f"{name} returned something that is not a plain value") from None
        assert isinstance(reply, tuple)
        if reply[0] == "raised":
            raise _exception(str(reply[1]), str(reply[2]))
        for old, new in zip(arguments, reply[2], strict=False):
            _copy_changes(old, new)
        return reply[1]

    return call_program


def _copy_changes(old: object, new: object) -> None:
    """Arguments that a function changed in place are changed for the test as well."""
    if type(old) is list and type(new) is list:
        old[:] = new
    elif isinstance(old, dict | set) and type(old) is type(new):
        old.clear()
        old.update(new)


def _exception(name: str, message: str) -> BaseException:
    """The exception that the program raised, for tests that expect one; only builtin kinds can be rebuilt."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message.partition(": ")[2])
        except TypeError:  # one that wants more than a message
            pass
    return RuntimeError(message)


def _failing_line(error: BaseException) -> str:
    """What failed, with the line of the test."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<test>"]
    suffix = f" (line {lines[-1].lineno} of the test)" if lines else ""
    return (_describe(error) or "AssertionError") + suffix


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:300].rstrip(": ")
    except BaseException:
        return type(error).__name__


def _write_message(fd: int, data: bytes) -> None:
    unwritten = memoryview(LENGTH_PREFIX.pack(len(data)) + data)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]


def _read_message(fd: int) -> bytes | None:
    header = _read_exactly(fd, LENGTH_PREFIX.size)
    return None if header is None else _read_exactly(fd, LENGTH_PREFIX.unpack(header)[0])


def _read_exactly(fd: int, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        if not (chunk := os.read(fd, min(1 << 20, count - len(data)))):
            return None
        data += chunk
    return bytes(data)
