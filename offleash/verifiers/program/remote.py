"""The program, as its tests see it: functions, classes and objects whose code is in another process (calls.py).

A call sends its arguments over and brings back a plain value, or the number of an object. An object says nothing about
itself that counts but plain attributes and what its methods return: whatever would have it compare, order or print
itself cannot be judged. Used by assertions.py, in the process of the tests.

Tests may catch exceptions. So a program that ended, or returned what is not plain, is remembered as having failed, and
so is a test that cannot be judged: an `except` in the tests changes nothing about that.
"""

import builtins
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from offleash.verifiers.program.plain import NotPlainError, decode, encode
from offleash.verifiers.sandbox.messages import MalformedMessageError, receive, send

CALLS_FD, REPLIES_FD = 3, 4  # descriptors to and from the program's process
RAISED_BY_PROGRAM = "raised_by_program"  # attribute of exceptions that are rebuilt here
Request = dict[str, Any]


class CannotJudgeError(BaseException):
    """The tests need something that cannot be judged: says nothing about the program."""


class ProgramFailedError(BaseException):
    """The program ended, or returned something that no test can accept. Not one of the exceptions that tests expect."""


class RemoteProgram:
    """The program in its process, as the tests see it."""

    def __init__(self, objects: bool) -> None:
        self._objects = objects
        self.called = False
        self.failure = ""  # why the program is wrong, whatever the tests make of it
        self.cannot_judge = ""  # why the tests cannot be judged

    def outcome(self) -> dict[str, object]:
        """The result where it does not depend on what the tests say; otherwise empty."""
        if self.failure:
            return {"wrong": self.failure}
        return {"failed": self.cannot_judge} if self.cannot_judge else {}

    def start(self, job: Request) -> None:
        """Send the program; an error with its own message where it does not run."""
        with suppress(BrokenPipeError):
            send(CALLS_FD, job | {"objects": self._objects})
        reply = self._reply("before its tests")
        if reply.get("ran") is not True:
            self._fail(str(reply.get("broken"))[:300])

    def refuse(self, reason: str) -> NoReturn:
        """The tests cannot be judged."""
        self.cannot_judge = reason
        raise CannotJudgeError(reason)

    def _fail(self, reason: str) -> NoReturn:
        self.failure = self.failure or reason
        raise ProgramFailedError(reason)

    def proxy(self, name: str, is_class: bool = False, in_place: bool = False) -> Callable[..., object]:
        """A function that has the program's function, or class, of that name called in the program's process."""

        def call_program(*arguments: object, **keywords: object) -> object:
            return self.call({"name": name, "in_place": in_place}, arguments, keywords)

        return RemoteClass(self, name) if is_class else call_program

    def make(self, name: str, arguments: tuple[object, ...], keywords: dict[str, object]) -> "RemoteObject":
        """What a class of the program's makes: an object, also where the program made it a number.

        A test that expects `Pair(1, 2)` would otherwise take the value that it expects from the program.
        """
        value = self.call({"name": name, "make": True}, arguments, keywords)
        return value if isinstance(value, RemoteObject) else self._fail(f"{name} made something that is not an object")

    def call(self, target: Request, arguments: tuple[object, ...], keywords: dict[str, object]) -> object:
        """Call a function or an object of the program's."""
        self.called = True
        request = {"arguments": self._encode(list(arguments)), "keywords": self._encode(keywords)}
        reply = self._request(target | request)
        value = self._decode(reply.get("value"))
        if target.get("in_place") and isinstance(changed := reply.get("arguments"), list):
            for old, new in zip([*arguments, *keywords.values()], changed, strict=False):
                _update_in_place(old, self._decode(new))
        return value

    def call_in_place(self, function: Callable[..., object], *arguments: object, **keywords: object) -> object:
        """A call whose result is dropped: of the program's it may change its arguments."""
        if isinstance(function, RemoteObject):
            return self.call({"object": function._object_id, "in_place": True}, arguments, keywords)
        return function(*arguments, **keywords)

    def get(self, target: Request, name: str) -> object:
        """An attribute of one of its objects or classes."""
        return self._decode(self._request(target | {"get": name}).get("value"))

    def set(self, object_id: int, name: str, value: object) -> None:
        """Set an attribute of one of its objects."""
        self._request({"object": object_id, "set": name, "value": self._encode(value)})

    def _request(self, message: Request) -> Request:
        with suppress(BrokenPipeError):  # one that has ended has no reply
            send(CALLS_FD, message)
        reply = self._reply("during its tests")
        if "not_plain" in reply:
            self._fail(f"the program returned {str(reply['not_plain'])[:300]}")
        if "raised" in reply:
            raise _rebuild_exception(str(reply["raised"]), str(reply.get("message")))
        return reply

    def _reply(self, phase: str) -> Request:
        try:
            reply = receive(REPLIES_FD)
        except MalformedMessageError:
            reply = {}
        if reply is None:
            self._fail(f"the program exited {phase}")
        if not isinstance(reply, dict):
            self._fail("the program sent an unreadable reply")
        return reply

    def _encode(self, value: object) -> object:
        try:
            return encode(value, self._object_id)
        except NotPlainError as error:
            self.refuse(f"a test passes the program {error}")

    def _object_id(self, value: object) -> object:
        if isinstance(value, RemoteObject):
            return value._object_id
        raise NotPlainError(f"a value of type {type(value).__name__}, which is not plain")

    def _decode(self, value: object) -> object:
        try:
            return decode(value, self._object if self._objects else None)
        except Exception:
            self._fail("the program returned something that is not a plain value")

    def _object(self, object_id: object) -> object:
        if type(object_id) is not int:
            raise ValueError("not a plain value")
        return RemoteObject(self, object_id)


class RemoteClass:
    """A class of the program's: makes objects, has attributes. What is an instance of it, only the program knows."""

    def __init__(self, program: RemoteProgram, name: str) -> None:
        self._program, self._name = program, name

    def __call__(self, *arguments: object, **keywords: object) -> object:
        return self._program.make(self._name, arguments, keywords)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._program.get({"name": self._name}, name)

    def __instancecheck__(self, value: object) -> bool:
        return self._cannot_judge() if isinstance(value, RemoteObject) else False

    def __eq__(self, other: object) -> bool:
        return self._cannot_judge() if other is RemoteObject else other is self

    def __hash__(self) -> int:
        return id(self)

    def _cannot_judge(self, *_: object) -> NoReturn:
        self._program.refuse(f"a test asks whether something is of the program's class {self._name}")

    __subclasscheck__ = __mro_entries__ = _cannot_judge


class RemoteObject:
    """An object of the program's, held by its number. Nothing that it says about itself counts but plain attributes."""

    __slots__ = ("_object_id", "_program")
    _object_id: int
    _program: RemoteProgram

    def __init__(self, program: RemoteProgram, object_id: int) -> None:
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_object_id", object_id)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            self._cannot_judge()
        return self._program.get({"object": self._object_id}, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._program.set(self._object_id, name, value)

    def __call__(self, *arguments: object, **keywords: object) -> object:
        return self._program.call({"object": self._object_id}, arguments, keywords)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if isinstance(other, RemoteObject):
            self._cannot_judge()
        return False

    def _cannot_judge(self, *_: object) -> NoReturn:
        self._program.refuse(
            "a test relies on how the program compares, combines, counts, copies or prints its own objects"
        )

    def __bool__(self) -> bool:
        raise TypeError("the program returned an object where a plain value is expected")

    __hash__ = _cannot_judge

    __lt__ = __le__ = __gt__ = __ge__ = __len__ = __iter__ = __contains__ = __getitem__ = _cannot_judge
    __str__ = __repr__ = __format__ = __neg__ = __abs__ = __int__ = __float__ = __index__ = _cannot_judge
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _cannot_judge
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __and__ = __or__ = __xor__ = __setitem__ = _cannot_judge


def _update_in_place(old: object, new: object) -> None:
    """Arguments that a function changed in place are changed for the test as well."""
    if type(old) is list and type(new) is list:
        old[:] = new
    elif (type(old) is dict and type(new) is dict) or (type(old) is set and type(new) is set):
        old.clear()
        old.update(new)


def _rebuild_exception(name: str, message: str) -> BaseException:
    """The exception that the program raised, for tests that expect one; only builtin kinds can be rebuilt.

    Not those that end an iteration: `all(map(f, inputs))` would take a program that raises one for right. Nor those
    that end a process, such as SystemExit: `except Exception` does not expect them.
    """
    kind = getattr(builtins, name, None)
    error: BaseException = ProgramFailedError(message)
    if isinstance(kind, type) and issubclass(kind, Exception):
        error = RuntimeError(message)
        if kind not in (StopIteration, StopAsyncIteration):
            with suppress(TypeError):  # one that wants more than a message
                error = kind(message.partition(": ")[2])
    setattr(error, RAISED_BY_PROGRAM, True)
    return error
