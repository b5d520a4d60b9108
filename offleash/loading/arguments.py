"""Run arguments: a run folder, a file, a folder or a quoted glob, each with an optional name in front (NAME=PATH)."""

import glob
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from unicodedata import category

from offleash.data.run_folder import is_run
from offleash.errors import OffleashError

ENDINGS = {".jsonl", ".json", ".ndjson", ".parquet", ".csv", ".tsv", ".gz", ".eval", ".zip", ".txt"}


@dataclass(frozen=True)
class Argument:
    """A run as the user named it: its name and the run folders or files that make it up."""

    name: str
    paths: tuple[Path, ...]
    folder: bool = False  # the files are all there was in a folder, so those of no known format are skipped
    given: bool = False  # the user gave the name


def parse_argument(text: str) -> Argument:
    """What a run argument stands for; files of a glob or a folder come in natural order (rs2 before rs10)."""
    name, path_text = _split_name(text)
    if name and name != one_line(name):
        raise OffleashError(
            f"A run's name is one line without control characters; found {name!r} in front of {path_text!r}."
        )
    path = Path(path_text).expanduser()
    if is_run(path):
        return Argument(name or one_line(path.resolve().name), (path,), given=bool(name))
    if path.is_dir():
        return Argument(name or one_line(path.resolve().name), _files_below(path), folder=True, given=bool(name))
    if path.is_file():
        return Argument(name or _stem(path), (path,), given=bool(name))
    if path.exists():
        raise OffleashError(f"{path_text!r} is a pipe or a device, and a log is read twice; save it to a file first.")
    matches = sorted((Path(match) for match in glob.glob(os.fspath(path), recursive=True)), key=_natural)  # noqa: PTH207
    if not matches:
        raise OffleashError(f"{path_text!r} is no file, folder or run, and no file matches it.{_near(path)}")
    files: list[Path] = []
    for match_path in matches:
        files.extend([match_path] if is_run(match_path) or match_path.is_file() else _files_below(match_path))
    return Argument(name or _common_name(files), tuple(files), given=bool(name))


def one_line(name: str) -> str:
    """A name on one line: what could steer a terminal stands as its escape."""
    plain = (letter.isprintable() or category(letter) == "Zs" for letter in name)  # spaces of any width are fine
    return "".join(letter if good else repr(letter)[1:-1] for letter, good in zip(name, plain, strict=True))


def distinct_paths(arguments: list[Argument]) -> list[Argument]:
    """Arguments that would have the same name called after the first part of their paths that differs, from the end."""
    clash = {name for name, count in Counter(argument.name for argument in arguments).items() if count > 1}
    same = [argument for argument in arguments if argument.name in clash and not argument.given]
    parts = [list(reversed(argument.paths[0].resolve().parts)) for argument in same]
    level = next((i for i, names in enumerate(zip(*parts, strict=False)) if len(set(names)) == len(same)), None)
    if len(same) < 2 or level is None:
        return arguments
    named = {id(argument): _stem(Path(part[level])) for argument, part in zip(same, parts, strict=True)}
    return [replace(argument, name=named.get(id(argument), argument.name)) for argument in arguments]


def distinct_names(names: list[str]) -> list[str]:
    """The names, numbered where two runs would have the same."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out


def _split_name(text: str) -> tuple[str | None, str]:
    if Path(text).exists():  # a path may itself hold a '='
        return None, text
    split = re.match(r"([^=/\\]+)=(.+)", text, flags=re.DOTALL)
    if split is None:
        return None, text
    for place in (sign.start() for sign in re.finditer("=", text)):  # a name may hold a '=' too: lr=1=runs/first
        name, path = text[:place], text[place + 1 :]
        if path and "/" not in name and Path(path).expanduser().exists():
            return name, path
    return split[1], split[2]


def _files_below(folder: Path) -> tuple[Path, ...]:
    if any(is_run(child) for child in folder.iterdir() if child.is_dir()):
        raise OffleashError(f"{folder} holds run folders; name one, or quote a glob to merge them ('{folder}/*').")
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
    if not files:
        raise OffleashError(f"{folder} is an empty folder: no logs to read.")
    return tuple(sorted(files, key=_natural))


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", os.fspath(path))
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def _stem(path: Path) -> str:
    """The name of a file without the endings of logs; other dots belong to it (qwen2.5-7b)."""
    name = path.name
    while (ending := Path(name).suffix.lower()) in ENDINGS:
        name = name[: -len(ending)]
    return one_line(name or path.name)


def _common_name(files: list[Path]) -> str:
    """The name that merged files share: their folder's, or the beginning of their names."""
    if len(files) == 1:
        return _stem(files[0])
    stems = sorted(_stem(file) for file in files)
    shared = (a == b for a, b in zip(stems[0], stems[-1], strict=False))
    common = "".join(letter for letter, _ in takewhile(lambda pair: pair[1], zip(stems[0], shared, strict=False)))
    common = common.rstrip("-_.0123456789")
    return common or one_line(files[0].parent.name) or "run"


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {os.fspath(path.parent)!r} either."
    near = get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.7)
    return f" Did you mean {os.fspath(path.parent / near[0])!r}?" if near else ""


def run_folders(arguments: Sequence[str]) -> list[Path]:
    """The run folders that the arguments name, each checked."""
    return [_run_folder(Path(argument)) for argument in arguments]


def _run_folder(path: Path) -> Path:
    if path.is_dir() and is_run(path):
        return path
    if path.is_dir():
        raise OffleashError(f"{path} is no run folder: it has no run.json. Logs: offleash import {path} -o RUN first.")
    raise OffleashError(f"There is no run folder {path}. Logs become one with: offleash import LOGS -o RUN.")
