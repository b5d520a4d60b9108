"""The program's side of tests by assertion: runs the model's code and answers calls of its functions.

Runs in a sandbox of its own, with two pipes to the process of the tests and nothing else (assertions.py). What is said
here is only what the program's functions return: nothing is decided in this process, so that nothing that the program
does to it can turn into a verdict.
"""

import os
import sys
from types import ModuleType
from typing import Any

from offleash.verifiers.program.assembly import completion_sources, program_sources
from offleash.verifiers.program.plain import NotPlainError, decode, encode
from offleash.verifiers.sandbox.messages import pack_message, receive, send

Message = dict[str, object]


def main(arguments: list[str]) -> None:
    """Read the program, run it, answer calls until there are no more."""
    calls, replies = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    job = receive(calls)
    assert isinstance(job, dict)
    try:
        names = _run_program(job)
    except SyntaxError as error:
        send(replies, {"broken": f"syntax error: {error.msg} (line {error.lineno})"})
        return
    except BaseException as error:
        send(replies, {"broken": describe(error)})
        return
    send(replies, {"ran": True})
    server = _CallServer(names, bool(job["objects"]))
    while isinstance(call := receive(calls), dict):
        try:
            reply = pack_message(server.handle(call))
        except NotPlainError as error:
            reply = pack_message({"not_plain": describe(error)})
        except BaseException as error:
            reply = pack_message({"raised": _builtin_kind(error), "message": describe(error)})
        left = memoryview(reply)
        while left:
            left = left[os.write(replies, left) :]


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its class does."""
    try:
        return _plain_text(f"{type(error).__name__}: {error}"[:300].rstrip(": "))
    except BaseException:
        return "an exception that cannot be printed"


def _plain_text(value: str) -> str:
    return str.__str__(value)[:300]


def _builtin_kind(error: BaseException) -> str:
    """The class of an exception, or the nearest of Python's own above it: all that the tests can expect."""
    return next(_plain_text(kind.__name__) for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _run_program(job: Message) -> dict[str, object]:
    """The names that the program defines, after running it as a module."""
    answer, prompt, entry = (str(job[name]) for name in ("answer", "prompt", "entry_point"))
    sources = completion_sources(prompt, answer, entry) if job["kind"] == "check" else program_sources(answer)
    codes = [compile(source, "<program>", "exec", dont_inherit=True) for source in sources]
    module = ModuleType("solution")
    sys.modules["solution"] = module  # where dataclasses and pickle look for it
    for code in codes:
        exec(code, module.__dict__)
    return module.__dict__


class _CallServer:
    """The program's names, and its objects that the tests hold by number."""

    def __init__(self, names: dict[str, object], objects: bool) -> None:
        self._names = names
        self._objects: list[object] | None = [] if objects else None

    def handle(self, call: Message) -> Message:
        """Call a function or an object; or read or set an attribute of an object."""
        if "name" in call:
            name = str(call["name"])
            if name not in self._names:
                raise NameError(f"the program does not define {name}")
            target = self._names[name]
        else:
            target = self._object(call["object"])
        if "get" in call:
            return {"value": self._encode(getattr(target, str(call["get"])))}
        if "set" in call:
            setattr(target, str(call["set"]), self._decode(call["value"]))
            return {"value": None}
        arguments: list[object] = self._decode(call["arguments"])
        keywords: dict[str, object] = self._decode(call["keywords"])
        result = target(*arguments, **keywords)  # type: ignore[operator]
        if call.get("in_place") is True:  # the test drops the result, which may be anything
            changed = [
                self._encode(argument) if isinstance(argument, list | dict | set) else None
                for argument in [*arguments, *keywords.values()]
            ]
            return {"value": None, "arguments": changed}
        return {"value": {"ref": self._object_id(result)} if call.get("make") is True else self._encode(result)}

    def _encode(self, value: object) -> object:
        return encode(value, self._object_id if self._objects is not None else None)

    def _decode(self, value: object) -> Any:
        return decode(value, self._object)

    def _object_id(self, value: object) -> object:
        assert self._objects is not None
        self._objects.append(value)
        return len(self._objects) - 1

    def _object(self, object_id: object) -> object:
        assert self._objects is not None
        assert isinstance(object_id, int)
        return self._objects[object_id]
