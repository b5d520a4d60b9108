"""The tests' side of tests by assertion (HumanEval, MBPP, EvalPlus): a program cannot reach what decides about it.

    decide.py --job--> this process, in its own sandbox  <--calls, answers--> calls.py, in another: the model's code
              <-result-

The tests run here, and so does no line of the model's. Its functions are proxies that send the arguments over and
bring the result back, as plain values (plain.py). Whatever a program does to its interpreter, its files or its
processes happens in another sandbox; all that reaches this one are the values of its results, which the tests judge. So
there is no secret to find and nothing to forge: only this process holds the pipe of the verdict.

Which names are proxies follows from the problem alone, never from the program: names that the tests use and that
neither they nor Python's builtins define. Where the problem has a reference program, it says more: its imports are
repeated here, its constants are taken from it, and objects of its classes stay in the program's process. The tests hold
those by number; they can pass them on, call their methods and look at plain attributes, but `==` never asks the
program. A test that compares two such objects cannot be judged.

Tests may catch exceptions. So a program that ended, or returned what is not plain, is remembered as having failed, and
so is a test that cannot be judged: an `except` in the tests changes nothing about that.
"""

import ast
import builtins
import os
import traceback
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from importlib import import_module
from types import CodeType
from typing import Any, NoReturn

from offleash.verifiers.program.assembly import CONTEST_MODULES, CONTEST_PRELUDE
from offleash.verifiers.program.calls import describe
from offleash.verifiers.program.plain import NotPlainError, decode, encode
from offleash.verifiers.sandbox.messages import MalformedMessageError, receive, send

CALLS_FD, REPLIES_FD = 3, 4  # descriptors to and from the program's process
Job = dict[str, Any]  # a message: see program.decide
Names = dict[str, Any]


class CannotJudgeError(BaseException):
    """The tests need something that cannot be judged: says nothing about the program."""


class ProgramFailedError(BaseException):
    """The program ended, or returned something that no test can accept. Not one of the exceptions that tests expect."""


def main(arguments: list[str]) -> None:
    """Read the job, hand the program to the other process, run the tests, write the result."""
    jobs, results = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    job = receive(jobs)
    assert isinstance(job, dict)
    send(results, {"ready": True})
    try:
        send(results, _run_tests(job))
    except BaseException as error:  # the program has passed in no case
        send(results, {"wrong": describe(error)})


def _run_tests(job: Job) -> dict[str, object]:
    """`{"passed": true}`, `{"wrong": reason}` or `{"failed": reason}`."""
    try:
        trees = [ast.parse(text) for text in _test_texts(job)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"failed": f"the problem's tests do not compile: {describe(error)}"}
    gold = _ReferenceProgram(str(job["gold"]))
    is_check = job["kind"] == "check"
    program_names = [str(job["entry_point"])] if is_check else _program_names(job, gold)
    program = _RemoteProgram(objects=bool(gold.classes & set(program_names)))
    try:
        names = _prompt_names(job) if is_check else _reference_names(job, gold, program_names)
        remote = {name: name for name in program_names if is_check or name not in names}
        in_place = remote | ({"candidate": str(job["entry_point"])} if is_check else {})
        tests = [_compile(tree, in_place) for tree in trees]
        program.start({name: job[name] for name in ("kind", "answer", "prompt", "entry_point")})
        names |= {name: program.proxy(name, name in gold.classes) for name in remote}
        names |= {IN_PLACE + name: program.proxy(target, in_place=True) for name, target in in_place.items()}
        for code in tests:
            exec(code, names)
        if is_check:
            names["check"](program.proxy(str(job["entry_point"])))
    except CannotJudgeError as error:
        return {"failed": str(error)}
    except BaseException as error:
        if isinstance(error, ImportError) and not hasattr(error, RAISED_BY_PROGRAM):
            return {"failed": f"the tests import modules that are not installed here: {describe(error)}"}
        return program.outcome() or {"wrong": _describe_failure(error)}
    if not program.called:
        return {"failed": "the problem's tests never call the program"}
    return program.outcome() or {"passed": True}


RAISED_BY_PROGRAM = "raised_by_program"  # attribute of exceptions that are rebuilt here
IN_PLACE = "in place: "  # before the name of a function in a call whose result is dropped: no test uses such a name


def _compile(tree: ast.Module, functions: Collection[str]) -> CodeType:
    """A test, in which a call of these functions may change its arguments where its result is dropped.

    As in `put_in_order(x)`. Other calls may not: a program could change the very list that its result is compared with.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            function = node.value.func
            function.id = IN_PLACE + function.id if function.id in functions else function.id
    try:
        return compile(tree, "<test>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotJudgeError(f"the problem's tests do not compile: {describe(error)}") from None


def _prompt_names(job: Job) -> Names:
    """HumanEval: functions of the prompt that the test may call beside the one that is tested."""
    for end in ("", "\n    pass\n"):  # a head without a docstring does not compile by itself
        names: Names = {"__name__": "tests"}
        with suppress(Exception):
            exec(job["prompt"] + end, names)
            return names
    return {"__name__": "tests"}


def _reference_names(job: Job, gold: "_ReferenceProgram", program_names: Iterable[str]) -> Names:
    """What tests use of the reference program beside functions and classes: modules, constants and imported functions.

    Everything else is the program's, so a name must be known to be: a test `Counter(f(1)) == Counter([4, 5])` that took
    Counter from the program would believe it anything.
    """
    names: Names = {"__name__": "tests"}
    for name in program_names:
        if name in gold.imports:
            names[name] = gold.imported(name)
        elif name in gold.constants:
            value = gold.value(name)
            if not callable(value):  # `total = sum` is a function by another name
                names[name] = value
        elif name in gold.functions | gold.classes:
            continue
        elif name in CONTEST_MODULES and _is_module(job, name):
            names[name] = import_module(name)
        elif gold.defined & set(program_names):  # by `from math import *`, say
            value = gold.value(name)
            if getattr(value, "__module__", None) != REFERENCE:
                names[name] = value
    for node in _syntax_nodes(job):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            own = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} & gold.classes
            if own:
                raise CannotJudgeError(f"a test expects an exception of the program's class {own.pop()}")
    if not gold.defined & set(program_names):
        _refuse_ambiguous([name for name in program_names if name not in names])
    return names


def _refuse_ambiguous(program_names: list[str]) -> None:
    """Without a reference program, a name of the standard library's beside others may be meant as either."""
    standard: Names = {}
    exec(CONTEST_PRELUDE, standard)
    ambiguous = [name for name in program_names if name in standard]
    if ambiguous and len(ambiguous) < len(program_names):
        raise CannotJudgeError(
            f"the tests use {ambiguous[0]}, which may be Python's or the program's. Import it in the problem's setup"
        )


def _program_names(job: Job, gold: "_ReferenceProgram") -> list[str]:
    """The names that the tests use and neither they nor the builtins define.

    A reference program may be called like a builtin function (`sum`). Such a name is the program's only where the tests
    want nothing else of it: otherwise a program could replace what its results are checked with.
    """
    used: set[str] = set()
    bound: set[str] = set()
    for node in _syntax_nodes(job):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    program_names = used - bound - set(vars(builtins)) - {"__name__"}
    if not program_names - set(gold.imports) - set(CONTEST_MODULES):
        program_names |= used & gold.functions & set(vars(builtins))
    return sorted(program_names)


def _is_module(job: Job, name: str) -> bool:
    """Whether the tests use a name only as in `math.floor`."""
    nodes = _syntax_nodes(job)
    attribute_uses = sum(isinstance(node, ast.Attribute) and _is_name(node.value, name) for node in nodes)
    return attribute_uses == sum(_is_name(node, name) for node in nodes)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _syntax_nodes(job: Job) -> list[ast.AST]:
    return [node for text in _test_texts(job) for node in ast.walk(ast.parse(text))]


def _test_texts(job: Job) -> list[str]:
    return [job["test"]] if job["kind"] == "check" else [job["setup"], *job["tests"]]


REFERENCE = "reference"  # the reference program's module, where it is run


class _ReferenceProgram:
    """What a problem's reference program defines at its top level, also under `if`, `try` or `with`."""

    def __init__(self, source: str) -> None:
        self.functions: set[str] = set()
        self.classes: set[str] = set()
        self.constants: set[str] = set()
        self.imports: dict[str, CodeType] = {}
        self._source = source
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            body = []
        while body:
            node = body.pop(0)
            for field in ("body", "handlers", "orelse", "finalbody"):
                if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                    body += getattr(node, field, [])
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.add(node.name)
            elif isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = {target.id for target in targets if isinstance(target, ast.Name)}
                (self.functions if isinstance(node.value, ast.Lambda) else self.constants).update(names)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                code = compile(ast.Module([node], []), "<reference>", "exec", dont_inherit=True)
                self.imports |= {(alias.asname or alias.name).partition(".")[0]: code for alias in node.names}
        self.imports.pop("*", None)  # what it brings shows when the program is run
        self.defined = self.functions | self.classes | self.constants

    def imported(self, name: str) -> object:
        """What one of its imports brings."""
        names: Names = {}
        try:
            exec(self.imports[name], names)
        except ImportError:
            return self.value(name)  # one of several that are tried in turn
        return names[name]

    def value(self, name: str) -> object:
        """The value of a name, by running the reference program."""
        names: Names = {"__name__": REFERENCE}
        try:
            exec(self._source, names)
            return names[name]
        except Exception as error:
            raise CannotJudgeError(
                f"the tests use {name}, which the reference program does not define: {describe(error)}"
            ) from None


class _RemoteProgram:
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

    def start(self, job: Job) -> None:
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

    def call(self, target: Job, arguments: tuple[object, ...], keywords: dict[str, object]) -> object:
        """Call a function or an object of the program's."""
        self.called = True
        request = {"arguments": self._encode(list(arguments)), "keywords": self._encode(keywords)}
        reply = self._request(target | request)
        value = self._decode(reply.get("value"))
        if target.get("in_place") and isinstance(changed := reply.get("arguments"), list):
            for old, new in zip(arguments, changed, strict=False):
                _update_in_place(old, self._decode(new))
        return value

    def get(self, target: Job, name: str) -> object:
        """An attribute of one of its objects or classes."""
        return self._decode(self._request(target | {"get": name}).get("value"))

    def set(self, object_id: int, name: str, value: object) -> None:
        """Set an attribute of one of its objects."""
        self._request({"object": object_id, "set": name, "value": self._encode(value)})

    def _request(self, message: Job) -> Job:
        with suppress(BrokenPipeError):  # one that has ended has no reply
            send(CALLS_FD, message)
        reply = self._reply("during its tests")
        if "not_plain" in reply:
            self._fail(f"the program returned {str(reply['not_plain'])[:300]}")
        if "raised" in reply:
            raise _rebuild_exception(str(reply["raised"]), str(reply.get("message")))
        return reply

    def _reply(self, phase: str) -> Job:
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

    def __init__(self, program: _RemoteProgram, name: str) -> None:
        self._program, self._name = program, name

    def __call__(self, *arguments: object, **keywords: object) -> object:
        return self._program.make(self._name, arguments, keywords)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._program.get({"name": self._name}, name)

    def __instancecheck__(self, value: object) -> bool:
        return self._cannot_judge() if isinstance(value, RemoteObject) else False

    def _cannot_judge(self, *_: object) -> NoReturn:
        self._program.refuse(f"a test asks whether something is of the program's class {self._name}")

    __subclasscheck__ = __mro_entries__ = _cannot_judge


class RemoteObject:
    """An object of the program's, held by its number. Nothing that it says about itself counts but plain attributes."""

    __slots__ = ("_object_id", "_program")
    _object_id: int
    _program: _RemoteProgram

    def __init__(self, program: _RemoteProgram, object_id: int) -> None:
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_object_id", object_id)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
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
        self._program.refuse("a test relies on how the program compares, orders, counts or prints its own objects")

    def __bool__(self) -> bool:
        raise TypeError("the program returned an object where a plain value is expected")

    __hash__ = _cannot_judge

    __lt__ = __le__ = __gt__ = __ge__ = __len__ = __iter__ = __contains__ = __getitem__ = _cannot_judge
    __str__ = __repr__ = __format__ = _cannot_judge


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


def _describe_failure(error: BaseException) -> str:
    """What failed, with the line of the test."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<test>"]
    suffix = f" (line {lines[-1].lineno} of the test)" if lines else ""
    return (describe(error) or "AssertionError") + suffix
