"""The program's side of tests by assertion: runs the model's code and answers calls of its functions.

Runs in a sandbox of its own, with two pipes to the process of the tests and nothing else (assertions.py). What is said
here is only what the program's functions return: nothing is decided in this process, so that nothing that the program
does to it can turn into a verdict.
"""

import os
import sys
from types import ModuleType
from typing import Any

from offleash.verifiers.program.assembly import completed, whole
from offleash.verifiers.program.plain import decoded, encoded
from offleash.verifiers.sandbox.messages import packed, receive, send

Message = dict[str, object]


def main(arguments: list[str]) -> None:
    """Read the program, run it, answer calls until there are no more."""
    calls, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    job = receive(calls)
    assert isinstance(job, dict)
    try:
        names = _executed(job)
    except SyntaxError as error:
        send(answers, {"broken": f"syntax error: {error.msg} (line {error.lineno})"})
        return
    except BaseException as error:
        send(answers, {"broken": describe(error)})
        return
    send(answers, {"ran": True})
    served = _Served(names, bool(job["objects"]), bool(job["in_place"]))
    while isinstance(call := receive(calls), dict):
        try:
            reply = packed(served.answer(call))
        except BaseException as error:
            reply = packed({"raised": _text(type(error).__name__), "message": describe(error)})
        left = memoryview(reply)
        while left:
            left = left[os.write(answers, left) :]


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its class does."""
    try:
        return _text(f"{type(error).__name__}: {error}"[:300].rstrip(": "))
    except BaseException:
        return "an exception that cannot be printed"


def _text(value: str) -> str:
    return str.__str__(value)[:300]


def _executed(job: Message) -> dict[str, object]:
    """The names that the program defines, after running it as a module."""
    answer, prompt, entry = (str(job[name]) for name in ("answer", "prompt", "entry_point"))
    sources = completed(prompt, answer, entry) if job["kind"] == "check" else whole(answer)
    codes = [compile(source, "<program>", "exec", dont_inherit=True) for source in sources]
    module = ModuleType("solution")
    sys.modules["solution"] = module  # where dataclasses and pickle look for it
    for code in codes:
        exec(code, module.__dict__)
    return module.__dict__


class _Served:
    """The program's names, and its objects that the tests hold by number."""

    def __init__(self, names: dict[str, object], objects: bool, in_place: bool) -> None:
        self._names = names
        self._objects: list[object] | None = [] if objects else None
        self._in_place = in_place

    def answer(self, call: Message) -> Message:
        """Call a function or an object; or read or set an attribute of an object."""
        if "name" in call:
            name = str(call["name"])
            if name not in self._names:
                raise NameError(f"the program does not define {name}")
            target = self._names[name]
        else:
            target = self._object(call["object"])
        if "get" in call:
            return {"value": self._encoded(getattr(target, str(call["get"])))}
        if "set" in call:
            setattr(target, str(call["set"]), self._decoded(call["value"]))
            return {"value": None}
        arguments: list[object] = self._decoded(call["arguments"])
        keywords: dict[str, object] = self._decoded(call["keywords"])
        result = target(*arguments, **keywords)  # type: ignore[operator]
        made = {"ref": self._number(result)} if call.get("make") is True else self._encoded(result)
        reply: Message = {"value": made}
        if self._in_place:
            reply["arguments"] = [
                self._encoded(argument) if isinstance(argument, list | dict | set) else None for argument in arguments
            ]
        return reply

    def _encoded(self, value: object) -> object:
        return encoded(value, self._number if self._objects is not None else None)

    def _decoded(self, value: object) -> Any:
        return decoded(value, self._object)

    def _number(self, value: object) -> object:
        assert self._objects is not None
        self._objects.append(value)
        return len(self._objects) - 1

    def _object(self, number: object) -> object:
        assert self._objects is not None
        assert isinstance(number, int)
        return self._objects[number]
