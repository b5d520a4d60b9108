"""The words of the package, for whoever reads them aloud: identifiers, texts for users, comments, dense functions.

python -m tests.words strings                     every text that a user can see, with its place
python -m tests.words identifiers --sample 200    names at random (--seed for others)
python -m tests.words comments --sample 30        comments that stand for themselves
python -m tests.words dense --sample 20           the functions with the most code and the fewest words
python -m tests.words share                       share of lines that are docstrings or comments, folder by folder

tests/test_words.py uses the same lists to keep private vocabulary out of the identifiers.
"""

import argparse
import ast
import io
import random
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.places import PACKAGE, ROOT


class Word(NamedTuple):
    """A name, a text or a comment, and its place."""

    place: str
    text: str


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def identifiers(path: Path) -> Iterator[Word]:
    """Names that a file gives: of functions, classes, parameters, variables and attributes."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield Word(place(path, node.lineno), name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield Word(place(path, node.lineno), name)


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def strings(path: Path) -> Iterator[Word]:
    """Texts with a space between words, without docstrings: messages, help, captions. Fields of f-strings are {}.

    Docstrings of the public functions are help too; those are in docs/cli.md, which is made from them.
    """
    tree = parsed(path)
    skipped = {id(constant) for constant in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in ast.walk(node) if isinstance(part, ast.Constant)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        if re.search(r"[A-Za-z]{2,},? [A-Za-z{]", text):
            yield Word(place(path, node.lineno), " ".join(text.split()))


def comments(path: Path) -> Iterator[Word]:
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Word(place(path, token.start[0]), token.string)


def dense(path: Path) -> Iterator[tuple[float, Word]]:
    """Functions by the operators, calls and subscripts in them."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            kinds = ast.BinOp | ast.Call | ast.Subscript | ast.Compare | ast.comprehension
            weight = sum(isinstance(part, kinds) for part in ast.walk(node))
            yield weight, Word(place(path, node.lineno), f"{node.name} ({weight} operations)")


def shares() -> dict[str, tuple[int, int]]:
    """Lines, and lines of docstrings and comments, by folder."""
    total: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path in files():
        source = path.read_text(encoding="utf-8")
        explained = {int(word.place.rsplit(":", 1)[1]) for word in comments(path)}
        for constant in docstrings(parsed(path)):
            explained |= set(range(constant.lineno, (constant.end_lineno or constant.lineno) + 1))
        for name in ("all", path.relative_to(PACKAGE).parts[0]):
            total[name][0] += len(source.splitlines())
            total[name][1] += len(explained)
    return {name: (lines, explained) for name, (lines, explained) in total.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["strings", "identifiers", "comments", "dense", "share"])
    parser.add_argument("--sample", type=int, default=0, help="so many at random; of dense, the densest")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "share":
        for name, (lines, explained) in shares().items():
            print(f"{name:20} {lines:6,} lines, {explained / lines:6.1%} docstrings and comments")
        return
    if given.what == "dense":
        ranked = sorted((row for path in files() for row in dense(path)), reverse=True)
        words = [word for _, word in ranked[: given.sample or 20]]
    else:
        lister = {"strings": strings, "identifiers": identifiers, "comments": comments}[given.what]
        words = [word for path in files() for word in lister(path)]
        if given.what == "identifiers":  # each name once: what is frequent is not read more often
            words = list({word.text: word for word in words}.values())
        if given.sample:
            words = random.Random(given.seed).sample(words, given.sample)
    for word in words:
        print(f"{word.place}: {word.text}")


if __name__ == "__main__":
    main()
