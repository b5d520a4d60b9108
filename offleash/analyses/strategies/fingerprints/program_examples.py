"""What stands under the functions of a program only to show them: calls, prints and asserts on constants.

An example calls a function or a class of the program, or a method of such a class, with nothing but literals: as a
statement, printed beside other constants, or asserted. A program that reads input is a script, and has no examples.
"""

import ast

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
STREAMS = frozenset({"stdin", "argv"})
READERS = frozenset({"input", "open", "fileinput"})
_LITERAL = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred),
    *(ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator, ast.expr_context),
)


def opened(tree: ast.Module) -> ast.Module:
    """With what stands under `if __name__ == "__main__"` at the top level."""
    body: list[ast.stmt] = []
    for one in tree.body:
        guard = isinstance(one, ast.If) and any(
            isinstance(name, ast.Name) and name.id == "__name__" for name in ast.walk(one.test)
        )
        body += one.body if guard and isinstance(one, ast.If) else [one]
    return ast.Module(body=body, type_ignores=[])


def examples(tree: ast.Module) -> frozenset[int]:
    """The places of examples at the top level; where there are any, prints of text alone belong to them."""
    own = {one.name: one for one in tree.body if isinstance(one, Definition)}
    found = {place for place, one in enumerate(tree.body) if _is_example(one, own)}
    return frozenset(found | {place for place, one in enumerate(tree.body) if found and _prints_text(one)})


def reads_input(tree: ast.Module) -> bool:
    """Whether a program reads what it is given; its own names must be numbered, so that `input` is the builtin."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Attribute) and one.attr in STREAMS:
            return True
        if isinstance(one, ast.Name) and one.id.split(".")[-1] in STREAMS | READERS:
            return True
    return False


def _is_example(node: ast.stmt, own: dict[str, Definition]) -> bool:
    if isinstance(node, ast.Assert):  # it computes nothing that the program gives
        return any(_shows(one, own) for one in ast.walk(node.test))
    if not isinstance(node, ast.Expr):
        return False
    printed = _printed(node)
    if printed is None:
        return _shows(node.value, own)
    shown = any(_shows(one, own) for part in printed for one in ast.walk(part))
    return shown and all(_is_constant(one, own) for one in printed)


def _prints_text(node: ast.stmt) -> bool:
    printed = _printed(node)
    return printed is not None and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in printed)


def _printed(node: ast.stmt) -> list[ast.expr] | None:
    """What a statement prints; None where it is no print."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
        return [*call.args, *(one.value for one in call.keywords)]
    return None


def _is_constant(node: ast.expr, own: dict[str, Definition]) -> bool:
    """Whether it is made of literals and of what own functions give for literals: itself, compared, or in a text."""
    if isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.Compare):
        return all(_is_constant(one, own) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
    return _is_literal(node) or _shows(node, own)


def _shows(node: ast.AST, own: dict[str, Definition]) -> bool:
    """Whether it calls, with literals, an own function or class, or a method of an own class made with literals."""
    if not isinstance(node, ast.Call):
        return False
    if not all(_is_literal(one) for one in (*node.args, *(one.value for one in node.keywords))):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in own
    made = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
        return False
    return isinstance(own.get(made.func.id), ast.ClassDef) and _shows(made, own)


def _is_literal(node: ast.expr) -> bool:
    return all(isinstance(one, _LITERAL) for one in ast.walk(node))
