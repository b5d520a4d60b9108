"""Users' own code: FILE.py:NAME, MODULE:NAME, or the entry point of an installed package; found, loaded and hashed.

Verifiers, samplers, log formats, fingerprints, training methods and figures are looked up here when a name is not one
of ours, so that a command which needs no plugin reads no package metadata. What is loaded is the user's own code and is
trusted. Only options and recipes may name a file or a module: a name that stands in data, such as the verifier of a
problem, must never reach `load_reference`.
"""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from hashlib import blake2b
from inspect import getsourcefile, unwrap
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from offleash.errors import OffleashError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Function = Callable[[dict[str, object], str], object]
# Groups of entry points, each with what its objects are; see docs/extending.md.
GROUPS = {
    "offleash.verifiers": "a function that judges, or a Verifier",
    "offleash.samplers": "a function open_sampler(model)",
    "offleash.formats": "a Format",
    "offleash.fingerprints": "a function strategy(problem, text)",
    "offleash.methods": "a function that returns a Method",
    "offleash.figures": "a function figure(subject, look)",
}
INSTALL_FOLDERS = ("site-packages", "dist-packages")  # folders of installed packages, also those of other interpreters


class PluginError(Exception):
    """The object cannot be loaded, or a function returns something unusable; the message says what."""


# References: what a user writes after an option.


def is_reference(text: str) -> bool:
    """Whether a name is FILE.py:NAME or MODULE:NAME rather than a name of ours or of an entry point."""
    where, colon, name = text.rpartition(":")
    return bool(colon and where and name.isidentifier())


def load_reference(reference: str) -> object:
    """The object of FILE.py:NAME or MODULE:NAME, loaded into this process.

    Raises:
        PluginError: there is no such file, module or name; the message has the nearest name.
        Exception: whatever the user's module raises while it is imported.
    """
    where, _, name = reference.rpartition(":")
    module = _module(where)
    if name not in vars(module) and not hasattr(module, name):
        raise PluginError(_no_such_name(module, where, name))
    return getattr(module, name)


def load_function(reference: str) -> Function:
    """The function of a reference."""
    function = load_reference(reference)
    if not callable(function):
        where, _, name = reference.rpartition(":")
        raise PluginError(f"{name} in {where} has type {type(function).__name__}, not a function")
    callable_function: Function = function
    return callable_function


def load_plugin(reference: str, kind: str) -> object:
    """As `load_reference`, for code that runs in this process: whatever goes wrong is an error that a user can fix.

    Args:
        reference: FILE.py:NAME or MODULE:NAME.
        kind: what it is to be, for the error: "sampler", "figure".
    """
    try:
        return load_reference(reference)
    except PluginError as error:
        raise OffleashError(f"The {kind} {reference} could not be loaded: {error}.") from None
    except OffleashError:
        raise
    except (Exception, SystemExit) as error:
        raise OffleashError(
            f"The {kind} {reference} could not be loaded: {error_line(error)}. Run its file with Python to see where."
        ) from None


def _module(where: str) -> ModuleType:
    """The module of a reference; a file is loaded again when it has changed, as notebooks change files."""
    _add_to_import_path(Path.cwd())
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
                raise PluginError(f"there is no module {where}") from None
            raise
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        close_matches = get_close_matches(path.name, [file.name for file in path.parent.glob("*.py")], n=1)
        raise PluginError(
            f"there is no file {where}" + (f"; the closest name is {close_matches[0]}" if close_matches else "")
        )
    _add_to_import_path(path.parent)  # it may import modules next to it
    state = path.stat()
    return _file_module(path, state.st_mtime_ns, state.st_size)


@cache
def _file_module(path: Path, modified_at: int, size: int) -> ModuleType:
    # the folder is part of the name: two files of one name, in two folders, are two modules
    folder_hash = blake2b(str(path.parent).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    spec = importlib.util.spec_from_file_location(f"offleash_own_{path.stem}_{folder_hash}", path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _add_to_import_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_such_name(module: ModuleType, where: str, name: str) -> str:
    functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    close_matches = get_close_matches(name, functions, n=1)
    return f"{where} has no function {name}" + (f"; the closest name is {close_matches[0]}" if close_matches else "")


def error_line(error: BaseException) -> str:
    """An exception as one line of at most 300 characters; our own messages need no name of a class before them."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # the __str__ of a user's exception may raise, too
        message = ""
    message_with_type = message if isinstance(error, PluginError) else f"{type(error).__name__}: {message}"
    return message_with_type[:300].strip(": .")


# Entry points: objects of installed packages, by name.


@cache
def _entry_points(group: str) -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # here: most commands need none

    assert group in GROUPS, f"no group of entry points is called {group}"
    return {point.name: point for point in entry_points(group=group)}


def plugin_names(group: str) -> list[str]:
    """Names that installed packages add to a group; nothing of theirs is imported."""
    return sorted(_entry_points(group))


def entry_point_reference(group: str, name: str) -> str | None:
    """MODULE:NAME of an entry point; None where no installed package has one of that name."""
    point = _entry_points(group).get(name)
    return None if point is None else f"{point.module}:{point.attr}"


def load_entry_point(group: str, name: str) -> object | None:
    """The object of an entry point; None where no installed package has one of that name."""
    point = _entry_points(group).get(name)
    if point is None:
        return None
    try:
        plugin: object = point.load()
    except OffleashError:
        raise
    except (Exception, SystemExit) as error:  # whatever a package does when it is imported
        package = point.dist.name if point.dist is not None else point.module
        raise OffleashError(
            f"The plugin {name!r} of the package {package} could not be loaded: {error_line(error)}. "
            f"Repair it, or remove it: pip uninstall {package}."
        ) from None
    return plugin


def find_plugin(group: str, name: str, kind: str) -> object | None:
    """What a user names and offleash does not have: an entry point, FILE.py:NAME or MODULE:NAME; None: neither."""
    plugin = load_entry_point(group, name)
    if plugin is not None or not is_reference(name):
        return plugin
    return load_plugin(name, kind)


# Fingerprints: functions(problem, text), called in a worker by analyses/strategies/fingerprints/worker.py.


def call_strategy(reference: str, problem: dict[str, object], text: str) -> str | None:
    """The strategy that the function `reference` returns for a text."""
    strategy = load_function(reference)(problem, text)
    if strategy is None or isinstance(strategy, str):
        return strategy or None
    raise PluginError(f"{reference} returned {type(strategy).__name__} {strategy!r:.60}; it must return a str or None")


# The version of a user's code: a hash of the file and of the local modules that it imports.


def source_hash(reference: str) -> str:
    """A hash of the file of a reference, of the file that defines its object, and of their local modules.

    Of an installed package the version counts as well: its other modules are not hashed one by one.
    """
    digest = blake2b(digest_size=6)
    files = source_files(reference)
    for content in (*(file.read_bytes() for file in files), _package_version(reference, files).encode()):
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _package_version(reference: str, files: list[Path]) -> str:
    where = reference.rpartition(":")[0]
    if where.endswith(".py") or not any(map(_is_installed, files)):
        return ""
    from importlib import metadata

    package = where.partition(".")[0]
    names = [package, *metadata.packages_distributions().get(package, [])]
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def source_files(reference: str) -> list[Path]:
    """The files whose text decides what a function does, its own first: those loaded, and those it imports later."""
    where, _, _ = reference.rpartition(":")
    function = load_function(reference)
    files = [str(getattr(_module(where), "__file__", None) or "")]
    try:
        # functools.wraps leads from a decorator to the function; a partial or an instance has a file of its class
        target = unwrap(function)
        files.append(getsourcefile(getattr(target, "func", target)) or "")
    except (TypeError, ValueError):
        with suppress(TypeError):  # an instance of a built-in class: there is no file
            files.append(getsourcefile(type(function)) or "")
    first = [path for path in dict.fromkeys(Path(file).resolve() for file in files if file) if path.suffix == ".py"]
    folders = [path.parent for path in first]
    modules = (Path(str(getattr(module, "__file__", None) or "")) for module in list(sys.modules.values()))
    local_files = {path for path in modules if path.suffix == ".py" and _is_local(path, folders)}
    todo = [path for path in first if not _is_installed(path)] + list(local_files)
    while todo:
        for path in _imported_files(todo.pop(), folders):
            if path not in local_files and _is_local(path, folders):
                local_files.add(path)
                todo.append(path)
    return [*first, *sorted(local_files - set(first))]


def _imported_files(file: Path, folders: list[Path]) -> Iterator[Path]:
    """Files that a file imports anywhere, in functions too, as far as they are in the folders or where it stands."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    roots = [*folders, Path.cwd(), file.parent]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
        for name in filter(None, names):
            parts = name.split(".")
            for root in roots:
                module_path = root.joinpath(*parts)
                yield from (path.resolve() for path in (module_path.with_suffix(".py"), module_path / "__init__.py"))


def _is_installed(path: Path) -> bool:
    """Whether a file belongs to Python, to offleash or to an installed package."""
    prefixes = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parent, Path(ast.__file__).parent)
    return any(name in path.parts for name in INSTALL_FOLDERS) or any(
        path.is_relative_to(prefix) for prefix in prefixes
    )


def _is_local(path: Path, folders: list[Path]) -> bool:
    """Whether a module is the user's own: below the working directory or next to the function, and not installed."""
    roots = [Path.cwd(), *(folder for folder in folders if not _is_installed(folder))]
    # of thousands of loaded modules few are below a root: the cheapest question first
    return any(path.is_relative_to(root) for root in roots) and not _is_installed(path) and path.is_file()
