"""The layers: which part of the package may import which, and what else holds for the tree as a whole.

Every import counts, also one inside a function or under TYPE_CHECKING: a layer that needs another only now and
then needs it all the same, and a cycle is a cycle whenever it is closed.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from offleash.plugins import GROUPS
from tests.places import PACKAGE, ROOT

# From the bottom to the top; parts of one layer do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("version", "progress", "plugins", "display", "options", "cpus", "credentials"),
    ("signatures",),
    ("data",),
    ("files", "stats", "render"),
    ("problems", "logs", "samplers", "verifiers"),
    ("loading",),
    ("verifying",),
    ("drawing", "comparing"),
    ("scoring",),
    ("analyses",),
    ("training", "reporting"),
    ("studies",),
    ("results",),
    ("api",),
    ("lab",),
    ("cli",),
    ("__main__",),
)
LAYER = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
STANDARD_LIBRARY_ONLY = (
    "errors",
    "version",
    "progress",
    "plugins",
    "display",
    "options",
    "cpus",
    "credentials",
    "signatures",
)
NUMBERS_ONLY = {"numpy", "scipy", "offleash"} | sys.stdlib_module_names
Imports = Mapping[str, frozenset[str]]


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        words = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


def imported(source: str, known: frozenset[str]) -> frozenset[str]:
    """The modules of offleash that a source imports, wherever in it; a name out of a package may be a module itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module and node.module.split(".")[0] == "offleash":
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in known else node.module for name in full}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "offleash"}
    return frozenset(found)


@cache
def imports() -> dict[str, frozenset[str]]:
    known = frozenset(modules())
    return {name: imported(path.read_text("utf-8"), known) for name, path in modules().items()}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "the package root"


def forbidden(module: str, names: frozenset[str]) -> set[str]:
    """What a module may not import: the package root, its own layer's neighbours, and layers above it."""
    own = part_of(module)
    return {name for name in names if part_of(name) != own and LAYER.get(part_of(name), 99) >= LAYER[own]}


def cycles(graph: Imports) -> list[list[str]]:
    """The groups of modules that import each other (strongly connected components of more than one; Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph.get(name, frozenset()) & graph.keys():
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1 or name in graph[name]:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def class_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The modules that define each public class."""
    found = defaultdict(list)
    for module, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return dict(found)


@pytest.mark.parametrize("module", sorted(modules()))
def test_a_module_imports_only_the_layers_below_it(module: str) -> None:
    if module == "offleash":
        return  # the package root names everything
    assert part_of(module) in LAYER, f"{part_of(module)} is a part that no layer has"
    assert not forbidden(module, imports()[module])


def test_the_package_imports_neither_its_tests_nor_its_research() -> None:
    for name, path in modules().items():
        assert not {"tests", "research", "benchmarks"} & set(_roots(path)), name


def test_a_forbidden_import_is_found() -> None:
    known = frozenset({"offleash.logs.registry", "offleash.comparing.compare", "offleash.stats.change"})

    def refused(module: str, source: str) -> set[str]:
        return forbidden(module, imported(source, known))

    assert refused("offleash.stats.change", "from offleash.logs.registry import open_log") == {"offleash.logs.registry"}
    assert refused("offleash.data.run", "def f():\n    import offleash.comparing.compare") == {
        "offleash.comparing.compare"
    }
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from offleash.comparing import compare"
    assert refused("offleash.drawing.draw", lazy) == {"offleash.comparing.compare"}
    assert refused("offleash.lab.demo", "import offleash") == {"offleash"}
    assert refused("offleash.comparing.compare", "from offleash.stats.change import support_change") == set()
    with pytest.raises(AssertionError, match="absolute"):
        imported("from . import compare", known)


def test_no_module_imports_itself_in_a_circle() -> None:
    without_root = {name: names for name, names in imports().items() if name != "offleash"}
    assert cycles(without_root) == []


def test_a_circle_is_found_also_where_one_import_is_lazy() -> None:
    known = frozenset({"offleash.a", "offleash.b", "offleash.c"})
    sources = {
        "offleash.a": "from offleash.b import f",
        "offleash.b": "def f():\n    from offleash import c",
        "offleash.c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from offleash.a import g",
    }
    assert cycles({name: imported(source, known) for name, source in sources.items()}) == [sorted(known)]


def test_a_public_class_name_exists_once() -> None:
    named = class_names({name: path.read_text("utf-8") for name, path in modules().items()})
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_a_class_name_that_exists_twice_is_found() -> None:
    twice = class_names({"offleash.a": "class Row: ...", "offleash.b": "class Row: ...\nclass _Own: ..."})
    assert twice == {"Row": ["offleash.a", "offleash.b"]}


def test_statistics_know_only_numpy_and_scipy() -> None:
    for name, path in modules().items():
        if part_of(name) == "stats":
            assert set(_roots(path)) <= NUMBERS_ONLY, name


def test_the_theory_knows_only_numpy_and_scipy_where_it_computes() -> None:
    computing = ("exact", "policy", "dynamics", "mechanisms", "statements")
    for name, path in modules().items():
        if name.removeprefix("offleash.analyses.theory.").split(".")[0] in computing:
            assert set(_roots(path)) <= NUMBERS_ONLY, name


def test_what_lies_at_the_bottom_knows_only_the_standard_library() -> None:
    for part in STANDARD_LIBRARY_ONLY:
        assert set(_roots(PACKAGE / f"{part}.py")) <= sys.stdlib_module_names | {"offleash"}, part


def _roots(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "collections.abc":
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)


def test_init_files_below_the_root_hold_a_docstring_and_no_more() -> None:
    """Workers start without the package root, in half the time: an import here would be theirs too."""
    for name, path in modules().items():
        if path.name == "__init__.py" and name != "offleash":
            body = ast.parse(path.read_text("utf-8")).body
            assert all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body), name


def test_no_public_name_is_hidden_by_a_folder_or_a_module_of_the_same_name() -> None:
    import offleash

    rooms = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert not rooms & set(offleash.__all__)
    assert all(callable(getattr(offleash, name)) for name in offleash.__all__)


def test_a_script_starts_where_its_file_ends() -> None:
    """What stands below `if __name__ == "__main__"` is not there yet when the file is run."""
    for name, path in modules().items():
        body = ast.parse(path.read_text("utf-8")).body
        starts = [node for node in body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)]
        assert starts in ([], body[-1:]), name


DOTTED = re.compile(r"(?<![\w/.-])offleash(?:\.[A-Za-z_]\w*)+")
SLASHED = re.compile(r"(?<![\w./-])(?:offleash|tests|research|examples|docs)/[\w/.*-]*\w\.(?:py|md)\b")
# What a reader of docs/extending.md adds, with a test of it.
ADDED = {"verifiers.parity", "samplers.coin", "logs.quizlog", "training.methods.raft", "comparing.figures.ranks"}
ADDED_FILES = {f"offleash/{name.replace('.', '/')}.py" for name in ADDED}
ADDED_FILES |= {
    f"tests/{'/'.join([*place, f'test_{name}'])}.py" for *place, name in (part.split(".") for part in ADDED)
}


def _texts() -> Iterator[Path]:
    for folder in ("offleash", "tests", "benchmarks", "examples", "docs", "research"):
        for ending in ("*.py", "*.md"):
            yield from sorted(path for path in (ROOT / folder).rglob(ending) if "fixtures" not in path.parts)
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml"))


@pytest.mark.parametrize("path", list(_texts()), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_and_file_that_a_text_names_exists(path: Path) -> None:
    """Modules are also named by strings (workers, registries, patches in tests), which no import checks."""
    if path == Path(__file__):
        return  # it names some that do not exist
    text = path.read_text("utf-8")
    for name in sorted(set(DOTTED.findall(text))):
        assert exists(name) or name in GROUPS or name.removeprefix("offleash.") in ADDED, f"there is no {name}"
    for name in sorted(set(SLASHED.findall(text))):
        assert "*" in name or "NAME" in name or name in ADDED_FILES or (ROOT / name).exists(), f"there is no {name}"


def test_every_file_on_the_journey_of_a_sample_exists() -> None:
    """docs/architecture.md names files below the package."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/*]*(?:\.py)?)`", text)) - {"offleash/", "tests/test_architecture.py"}
    assert len(named) > 50
    assert [name for name in sorted(named) if not any(PACKAGE.glob(name.rstrip("/")))] == []


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or something that is defined or imported in one."""
    words = dotted.split(".")
    for size in range(len(words), 0, -1):
        path = modules().get(".".join(words[:size]))
        if path is not None:
            rest = words[size:]
            return not rest or rest[0] in _names(path) or (size == 1 and rest[0] in _public())
    return False


def _names(path: Path) -> set[str]:
    found = {"__file__", "__version__", "__name__", "__all__"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _public() -> set[str]:
    import offleash

    return {*offleash.__all__, "json"}  # a file of answers in an example is called offleash.json


def test_a_name_that_does_not_exist_is_found() -> None:
    assert exists("offleash.stats.change.support_change")
    assert not exists("offleash.stats.changes")
    assert not exists("offleash.stats.change.no_such_name")
