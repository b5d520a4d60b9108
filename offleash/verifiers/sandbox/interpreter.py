"""How a fresh Python is started, in or outside the sandbox: executable, module paths, environment, and files it needs.

`specification` is the JSON from which launcher.py builds a sandbox.
"""

import importlib.util
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from offleash.verifiers.sandbox.isolation import TMPFS_SIZE_SINCE, bubblewrap_version


@dataclass(frozen=True)
class BackendVariant:
    """How a backend works on this machine: what unavailable_reason has found by trying."""

    as_owner: bool = False  # root's command stays root outside, because nobody cannot read its Python
    starts_python: bool = False  # bwrap starts a supervisor of its own: its namespaces cannot be joined


VARIANTS: dict[str, BackendVariant] = {}  # of each backend that was tried
LINUX = sys.platform == "linux"
# The real file, not the link of a virtual environment: links may lead outside of what a sandbox holds.
PYTHON = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
# -P: a folder of scripts never comes before the standard library; -S: paths are given
PYTHON_FLAGS = ("-s", "-P", "-S")
BOOTSTRAP = (
    "import json, sys; from importlib import import_module; paths = json.loads(sys.argv[1]); "
    "sys.path += [path for path in paths if path not in sys.path]; import_module(sys.argv[2]).main(sys.argv[3:])"
)
# Without the package's public face, whose imports take longer than all that a launcher or a runner does.
LIGHT_PACKAGE = (
    "import sys; root = type(sys)('offleash'); root.__path__ = [sys.argv.pop(1)]; sys.modules['offleash'] = root; "
)
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
# The dynamic linker's own files, without which shared libraries outside of the standard folders are not found.
LINKER_FILES = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that starts a fresh Python of this kind and calls `main(arguments)` of a module."""
    return [PYTHON, *PYTHON_FLAGS, "-c", BOOTSTRAP, json.dumps(module_paths()), module, *arguments]


def light_python_command(module: str, *arguments: str) -> list[str]:
    """The same for a module of ours that needs nothing of offleash but its neighbours: it starts in half the time."""
    package = str(_package("offleash"))
    script = LIGHT_PACKAGE + BOOTSTRAP
    return [PYTHON, *PYTHON_FLAGS, "-c", script, package, json.dumps(module_paths()), module, *arguments]


def trial_command() -> list[str]:
    """A command that prints `ready` when this Python and all its libraries can be read."""
    script = (
        "import json, os, sys\nfor path in json.loads(sys.argv[1]):\n    os.path.isdir(path) and os.listdir(path)\n"
    )
    script += "sys.path += json.loads(sys.argv[1])\nimport offleash.verifiers.verifier, ctypes\nprint('ready')"
    return [PYTHON, *PYTHON_FLAGS, "-c", script, json.dumps(module_paths())]


def environment() -> dict[str, str]:
    """All that a process in isolation gets: nothing of the caller's but where Python lives."""
    fixed_files = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": "0",  # verdicts must not depend on the order of a set
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and not sys.base_prefix.startswith("/usr"):
        fixed_files["LD_LIBRARY_PATH"] = os.path.realpath(os.path.join(sys.base_prefix, "lib"))  # noqa: PTH118
    return fixed_files | {name: os.environ[name] for name in ("PYTHONHOME",) if name in os.environ}


def trusted_environment() -> dict[str, str]:
    """The caller's environment for our own worker code: its libraries may need it; Python's switches are ours."""
    return (
        {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        | environment()
        | {"PATH": os.environ.get("PATH", os.defpath)}
    )


def specification(backend: str, command: Sequence[str], limits: dict[str, object], modules: Sequence[str]) -> str:
    """What the launcher is to build and run, as JSON."""
    binds, links = _sandbox_files(tuple(modules), tuple(sys.path))
    spec: dict[str, object] = {
        "backend": backend,
        "command": list(command),
        "limits": limits,
        "environment": environment(),
        "binds": binds,
        "links": links,
        "as_owner": VARIANTS.get(backend, BackendVariant()).as_owner,
        "folder": tempfile.gettempdir() if backend == "trusted" else "",
    }
    if backend == "bwrap":
        bwrap = bubblewrap()
        assert bwrap is not None
        spec |= {
            "bwrap": bwrap[0],
            "has_tmpfs_size": bwrap[1] >= TMPFS_SIZE_SINCE,
            "supervisor": light_python_command("offleash.verifiers.sandbox.supervisor"),
            "starts_python": VARIANTS.get(backend, BackendVariant()).starts_python,
        }
    return json.dumps(spec)


@cache
def _sandbox_files(modules: tuple[str, ...], paths: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """What a sandbox holds, and the links among it; looked up once, since hundreds of sandboxes are alike."""
    return needed_files(modules), {path: os.readlink(path) for path in SYSTEM_FOLDERS if Path(path).is_symlink()}  # noqa: PTH115


@cache
def bubblewrap() -> tuple[str, tuple[int, int]] | None:
    """The installed bwrap and its version."""
    program = shutil.which("bwrap")
    version = bubblewrap_version(program) if program else None
    return (program, version) if program and version else None


def module_paths() -> list[str]:
    """Where modules are found here, real and absolute, and offleash's own folder, whatever way it was installed."""
    paths = [os.path.realpath(path or ".") for path in sys.path]
    return list(dict.fromkeys([*paths, str(_package("offleash").parent)]))


def needed_files(modules: tuple[str, ...] = ()) -> list[str]:
    """What a sandbox holds: the system, this Python, its libraries, and the packages of the modules. Nothing else.

    Folders inside another one are left out: a bind is recursive. Of a source checkout only the package is there, never
    the folder around it, which may hold data and keys.
    """
    prefix = Path(os.path.realpath(sys.base_prefix))
    wanted = [Path(folder) for folder in (*SYSTEM_FOLDERS, *LINKER_FILES) if not Path(folder).is_symlink()]
    wanted += [Path(PYTHON), *(prefix / name for name in ("bin", "lib", "lib64"))]
    wanted += [Path(os.path.realpath(sysconfig.get_path(name))) for name in ("stdlib", "platstdlib")]
    wanted += [Path(path) for path in module_paths() if Path(path).name in ("site-packages", "dist-packages")]
    wanted += [_package(module.split(".")[0]) for module in ("offleash", *modules)]
    chosen: list[Path] = []
    for path in sorted({path for path in wanted if path.exists()}, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in chosen):
            chosen.append(path)
    return [str(path) for path in chosen]


@cache
def _package(name: str) -> Path:
    """The folder of a package, or the file of a module."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    locations = list(spec.submodule_search_locations or [])
    return Path(os.path.realpath(locations[0] if locations else str(spec.origin)))
