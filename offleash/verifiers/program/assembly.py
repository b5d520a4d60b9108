"""From an answer to the source code that is run: a whole program, or the prompt's function completed.

Answers are parsed only inside the sandbox: parsing hostile text can exhaust or crash an interpreter too.
"""

import ast
from textwrap import dedent, indent

# What LiveCodeBench's graders give every program, as the sites do from which its problems come (arXiv:2403.07974):
# starter code says List[int] and imports nothing. `builtins` comes late: math.pow and os-like names must not win.
CONTEST_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
CONTEST_PRELUDE = "\n".join(
    [f"from {name} import *" for name in CONTEST_MODULES]
    + [f"import {name}" for name in CONTEST_MODULES if name not in ("builtins", "copy", "datetime")]
    + ["sys.setrecursionlimit(50000)"]
)


def program_sources(answer: str, partial: str = "") -> list[str]:
    """Sources of a program; with `partial`, the first lines that it was to continue unless it repeats them."""
    if partial and not answer.strip().startswith(partial.strip()):
        for source in (partial.rstrip() + "\n" + answer, partial + answer):
            if _compiles(source):
                return [source]
    return [answer if _compiles(answer) else dedent(answer)]


def completion_sources(prompt: str, answer: str, entry: str) -> list[str]:
    """Sources of a function whose head was the prompt: a body is put under it, a whole function replaces it.

    HumanEval runs prompt + completion (arXiv:2107.03374); models that chat repeat the function, so its imports and the
    functions it may call are taken from the prompt. A body may have lost its indentation when it was taken from a text.
    """
    for text in (answer, dedent(answer)):
        if _defines(text, entry):
            return [_prompt_preamble(prompt, entry), text]
    bodies = [answer, "    " + answer.lstrip(), indent(dedent(answer), "    ")]
    if answer.lstrip("\n")[:1] not in (" ", "\t"):
        bodies = [*bodies[1:], answer]
    for body in bodies:
        if _compiles(source := prompt.rstrip("\n") + "\n" + body):
            return [source]
    return [_prompt_preamble(prompt, entry), answer] if f"def {entry}" in answer else [prompt + answer]


def _prompt_preamble(prompt: str, entry: str) -> str:
    """The part of the prompt in front of the function: imports and functions it may call."""
    tree = _parse(prompt)
    for node in tree.body if tree else []:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(prompt.splitlines()[: first - 1]) + "\n"
    return ""


def _defines(source: str, name: str) -> bool:
    """Whether a source defines the name at its top level, by `def`, `class` or assignment."""
    tree = _parse(source)
    for node in tree.body if tree else []:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return True
    return False


def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _compiles(source: str) -> bool:
    """`return` outside of a function parses and does not compile."""
    try:
        compile(source, "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
