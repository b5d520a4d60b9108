"""A user's own fingerprint, `function(problem, text) -> str | None`, called in a worker that can be killed.

`problem` is a dict with id, question, gold and details. The worker runs the user's own code as the user would; model
output reaches it as text. Called by analyses/strategies/fingerprints/worker.py.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from hashlib import blake2b
from inspect import getsourcefile
from pathlib import Path
from types import ModuleType

Function = Callable[[dict[str, object], str], object]


class PluginError(Exception):
    """The function cannot be loaded, or returns something other than a string; the message says what."""


def called(reference: str, problem: dict[str, object], text: str) -> str | None:
    """The strategy that the function `reference` returns for a text."""
    strategy = loaded(reference)(problem, text)
    if strategy is None or isinstance(strategy, str):
        return strategy or None
    raise PluginError(f"{reference} returned {type(strategy).__name__} {strategy!r:.60}; it must return a str or None")


def source_hash(reference: str) -> str:
    """A hash of the file that defines the function, and of the local modules loaded with it."""
    file = getsourcefile(loaded(reference))
    if not file:
        return "0"
    source = Path(file).resolve()
    local = {Path(str(getattr(module, "__file__", None) or "")) for module in list(sys.modules.values())}
    files = [
        source,
        *sorted(path for path in local if path.suffix == ".py" and path != source and _local(path, source)),
    ]
    return blake2b(b"\0".join(path.read_bytes() for path in files), digest_size=6).hexdigest()


def _local(path: Path, source: Path) -> bool:
    """Whether a module is the user's own: below the working directory or next to the function, and not installed."""
    installed = any(path.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix, Path(__file__).parent))
    return not installed and any(path.is_relative_to(root) for root in (Path.cwd(), source.parent)) and path.is_file()


@cache
def loaded(reference: str) -> Function:
    """The function of FILE.py:NAME or package.module:NAME."""
    where, _, name = reference.rpartition(":")
    sys.path.insert(0, str(Path.cwd()))
    if where.endswith(".py"):
        path = Path(where).resolve()
        sys.path.insert(1, str(path.parent))  # it may import modules next to it
        spec = importlib.util.spec_from_file_location(f"offleash_own_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise PluginError(f"there is no file {where}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    function = getattr(module, name, None)
    if not callable(function):
        raise PluginError(_no_function(module, where, name))
    out: Function = function
    return out


def _no_function(module: ModuleType, where: str, name: str) -> str:
    if name in vars(module):
        return f"{name} in {where} has type {type(vars(module)[name]).__name__}, not a function"
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    near = get_close_matches(name, own, n=1)
    return f"{where} has no function {name}" + (f"; the closest name is {near[0]}" if near else "")
