"""The layers: which part of the package may import which. Neighbours meet in tables and in study, nowhere else."""

import ast
from pathlib import Path

import pytest

from tests.places import PACKAGE

NEIGHBOURS = {"problems", "logs", "samplers", "verifiers", "support", "theory"}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    **{name: set() for name in ("version", "display", "progress", "render")},
    "tables": {"errors", "version", "render"},
    **{name: {"errors", "version", "display", "progress", "render", "tables"} for name in NEIGHBOURS},
    "comparing": {"support", "tables"},
    "study": {"errors", "version", "display", "progress", "render", "tables", "comparing"} | NEIGHBOURS,
}
BELOW["training"] = BELOW["study"] | {"study"}
BELOW["report"] = BELOW["study"] | {"study"}
BELOW["lab"] = BELOW["study"] | {"study", "training", "report"}
BELOW["cli"] = BELOW["lab"] | {"lab"}
BELOW["__main__"] = {"cli"}
HEAVY = {"torch", "sympy", "matplotlib", "transformers"}


def imported_parts(source: str) -> set[str]:
    """Parts of offleash that a module imports, wherever in the file."""
    parts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "offleash":
            words = node.module.split(".")
            parts |= {words[1]} if len(words) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            parts |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("offleash.")}
    return parts - {"__version__"}


def forbidden(part: str, source: str) -> set[str]:
    return imported_parts(source) - BELOW[part] - {part}


@pytest.mark.parametrize("module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_the_layers_below_it(module: Path) -> None:
    parts = module.relative_to(PACKAGE).parts
    part = parts[0].removesuffix(".py")
    if part == "__init__":
        return  # the public face names everything
    assert part in BELOW, f"{part} is a room that the design does not know"
    assert not forbidden(part, module.read_text(encoding="utf-8"))


def test_a_forbidden_import_is_found() -> None:
    assert forbidden("support", "from offleash.logs.registry import open_log") == {"logs"}
    assert forbidden("tables", "def f():\n    import offleash.study.compare") == {"study"}
    assert forbidden("study", "from offleash.support.change import support_change") == set()


@pytest.mark.parametrize("room", ["support", "theory"])
def test_statistics_and_theory_know_only_numpy_and_scipy(room: str) -> None:
    for module in (PACKAGE / room).rglob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        roots = {
            node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
        }
        roots |= {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert not roots & (HEAVY | {"polars", "pandas", "rich", "typer"}), module.name


def test_no_name_of_the_public_face_is_hidden_by_a_room_of_the_same_name() -> None:
    import offleash

    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert not rooms & set(offleash.__all__)
    assert all(callable(getattr(offleash, name)) for name in offleash.__all__)
