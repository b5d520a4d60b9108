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
"""

import ast
import builtins
import os
import symtable
import traceback
from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib import import_module
from types import CodeType
from typing import Any

from offleash.verifiers.program.assembly import CONTEST_MODULES, CONTEST_PRELUDE
from offleash.verifiers.program.calls import describe
from offleash.verifiers.program.remote import RAISED_BY_PROGRAM, CannotJudgeError, RemoteProgram
from offleash.verifiers.sandbox.messages import receive, send

Job = dict[str, Any]  # a message: see program.decide
Names = dict[str, Any]


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
    program = RemoteProgram(objects=bool(gold.classes) or _calls_a_result(trees))
    try:
        names = _prompt_names(job) if is_check else _reference_names(job, gold, program_names)
        remote = {name: name for name in program_names if is_check or name not in names}
        if not is_check:
            _refuse_modules(trees, remote.keys() - gold.classes - gold.functions)
            _refuse_own_judges(trees, remote.keys() - gold.classes)
        in_place = remote | ({"candidate": str(job["entry_point"])} if is_check else {})
        tests = [_compile(tree, in_place) for tree in trees]
        program.start({name: job[name] for name in ("kind", "answer", "prompt", "entry_point")})
        names |= {name: program.proxy(name, name in gold.classes) for name in remote}
        names |= {IN_PLACE + name: program.proxy(target, in_place=True) for name, target in in_place.items()}
        names[IN_PLACE] = program.call_in_place
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


IN_PLACE = "in place: "  # before the name of a function in a call whose result is dropped: no test uses such a name


def _compile(tree: ast.Module, functions: Collection[str]) -> CodeType:
    """A test, in which a call of these functions may change its arguments where its result is dropped.

    As in `put_in_order(x)` or `Solution().put_in_order(x)`. Other calls may not: a program could change the very list
    that its result is compared with.
    """
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        call, function = node.value, node.value.func
        if isinstance(function, ast.Name) and function.id in functions:
            function.id = IN_PLACE + function.id
        elif isinstance(function, ast.Attribute):
            call.args.insert(0, function)
            call.func = ast.copy_location(ast.Name(IN_PLACE, ast.Load()), function)
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
            names[name] = gold.import_name(name)
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


def _calls_a_result(trees: Iterable[ast.Module]) -> bool:
    """Whether the tests call what a call returns, as in `adder(1)(2)`."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    return any(isinstance(node, ast.Call) and isinstance(node.func, ast.Call) for node in nodes)


def _refuse_modules(trees: Iterable[ast.Module], names: Collection[str]) -> None:
    """A name with attributes that is no class of the reference program, as in `np.allclose`, is not the program's."""
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            name = node.value.id
            raise CannotJudgeError(
                f"the tests use {name}.{node.attr} without an import. Import {name} in the problem's setup"
            )


def _refuse_own_judges(trees: Iterable[ast.Module], functions: Collection[str]) -> None:
    """Refuse tests such as `assert same(f(1), 4)` where both are the program's: it would judge its own result."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    bindings: dict[str, list[ast.expr]] = {}  # what a variable of the tests may be
    for node in nodes:
        if isinstance(node, ast.arg):  # anything
            bindings[node.arg] = [ast.Call(ast.Name(name), [], []) for name in functions]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.comprehension):
            value = node.iter if isinstance(node, ast.For | ast.comprehension) else node.value
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and value is not None:
                        bindings.setdefault(name.id, []).append(value)
    conditions = [node.test for node in nodes if isinstance(node, ast.Assert | ast.If | ast.While | ast.IfExp)]
    conditions += [
        node.args[0]
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("assertTrue", "assertFalse") and node.args
    ]
    for judge, arguments in _deciding_calls(conditions, functions, bindings):
        judged = _sources(arguments, functions, bindings) - {judge}
        if judged:
            raise CannotJudgeError(
                f"a test has {judge} decide about the result of {min(judged)}: both are the program's"
            )


def _deciding_calls(
    conditions: list[ast.expr], functions: Collection[str], bindings: dict[str, list[ast.expr]]
) -> Iterable[tuple[str, list[ast.expr]]]:
    """The calls of these functions, with their arguments, whose truth makes conditions true or false."""
    unvisited, seen = list(conditions), set()
    while unvisited:
        node = unvisited.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if node.func.id in functions:
                yield node.func.id, arguments
            else:  # all, any, bool; and map, which calls its first argument
                for name in (each.id for each in arguments if isinstance(each, ast.Name) and each.id in functions):
                    yield name, arguments
                unvisited += arguments
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Constant) and side.value in (True, False, None) for side in sides):  # 0, 1 too
                unvisited += sides
        elif isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            unvisited += bindings.get(node.id, [])
        elif isinstance(node, ast.BoolOp | ast.UnaryOp | ast.IfExp | ast.NamedExpr | ast.List | ast.Tuple):
            unvisited += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            unvisited.append(node.elt)


def _sources(values: Iterable[ast.AST], functions: Collection[str], bindings: dict[str, list[ast.expr]]) -> set[str]:
    """The functions of the program's whose results values are made from."""
    sources: set[str] = set()
    unvisited, seen = list(values), set()
    while unvisited:
        for node in ast.walk(unvisited.pop()):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                sources.add(node.func.id)
            elif isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                unvisited += bindings.get(node.id, [])
    return sources


def _program_names(job: Job, gold: "_ReferenceProgram") -> list[str]:
    """The names that the tests use and neither they nor the builtins define.

    A reference program may be called like a builtin function (`sum`). Such a name is the program's only where the tests
    want nothing else of it: otherwise a program could replace what its results are checked with.
    """
    used: set[str] = set()
    bound: set[str] = set()
    for text in _test_texts(job):
        scopes = [symtable.symtable(text, "<test>", "exec")]
        for scope in scopes:
            scopes += scope.get_children()
            for symbol in scope.get_symbols():
                if symbol.is_global() or scope is scopes[0]:
                    if symbol.is_referenced():
                        used.add(symbol.get_name())
                    if symbol.is_assigned() or symbol.is_imported():
                        bound.add(symbol.get_name())
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

    def import_name(self, name: str) -> object:
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


def _describe_failure(error: BaseException) -> str:
    """What failed, with the line of the test."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<test>"]
    suffix = f" (line {lines[-1].lineno} of the test)" if lines else ""
    return (describe(error) or "AssertionError") + suffix
