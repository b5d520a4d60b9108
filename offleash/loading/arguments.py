"""Run arguments: a run folder, file, folder, zip archive or quoted glob, each with an optional NAME= in front."""

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
from offleash.files.archives import archive_members

# Endings that are cut off when a file gives its run a name.
ENDINGS = {
    ".jsonl",
    ".json",
    ".ndjson",
    ".parquet",
    ".csv",
    ".tsv",
    ".gz",
    ".bz2",
    ".xz",
    ".zst",
    ".eval",
    ".zip",
    ".txt",
}


@dataclass(frozen=True)
class Argument:
    """A run as the user named it: the run folders or files that make it up, and its name."""

    name: str
    paths: tuple[Path, ...]
    folder: bool = False  # a folder or an archive was named, so files in it of no known format are skipped
    has_explicit_name: bool = False  # the user gave the name (NAME=PATH), so it is never changed


def parse_argument(text: str) -> Argument:
    """The run that an argument names; files of a glob or a folder come in natural order (rs2 before rs10).

    The order matters: samples are numbered file after file, and prefixes of them are drawn on when budgets differ.
    """
    name, path_text = _split_name(text)
    if name and name != printable_name(name):
        raise OffleashError(
            f"The name {name!r} of {path_text!r} has line breaks or control characters. Give a name on one line."
        )
    path = Path(path_text).expanduser()
    # A run folder before a folder: it holds Parquet files that would be read as logs otherwise.
    if is_run(path):
        return Argument(name or printable_name(path.resolve().name), (path,), has_explicit_name=bool(name))
    if path.is_dir():
        return Argument(
            name or printable_name(path.resolve().name), _files_below(path), folder=True, has_explicit_name=bool(name)
        )
    if path.is_file():
        members = tuple(sorted(archive_members(path), key=_natural_sort_key))
        return Argument(name or _stem(path), members, folder=members != (path,), has_explicit_name=bool(name))
    if path.exists():
        raise OffleashError(f"{path_text!r} is a pipe or a device, but a log is read twice. Save it to a file first.")
    matches = sorted((Path(match) for match in glob.glob(os.fspath(path), recursive=True)), key=_natural_sort_key)  # noqa: PTH207
    if not matches:
        raise OffleashError(
            f"{path_text!r} is not a file, folder or run folder, and no file matches it.{_similar_path_hint(path)}"
        )
    files: list[Path] = []
    for path_or_folder in matches:
        files.extend(
            [path_or_folder] if is_run(path_or_folder) or path_or_folder.is_file() else _files_below(path_or_folder)
        )
    members = tuple(member for file in files for member in ((file,) if is_run(file) else archive_members(file)))
    return Argument(name or _common_name(files), members, folder=members != tuple(files), has_explicit_name=bool(name))


def printable_name(name: str) -> str:
    """A name on one line, with escapes for what could steer a terminal: names come from paths and from logs."""
    is_printable = (letter.isprintable() or category(letter) == "Zs" for letter in name)  # spaces of any width are fine
    return "".join(letter if keep else repr(letter)[1:-1] for letter, keep in zip(name, is_printable, strict=True))


def disambiguate_names(arguments: list[Argument]) -> list[Argument]:
    """Arguments whose names clash, renamed after the last part of their paths in which all of them differ.

    runs/a/log.jsonl and runs/b/log.jsonl become `a` and `b`. Names that the user gave stay.
    """
    repeated_names = {name for name, count in Counter(argument.name for argument in arguments).items() if count > 1}
    ambiguous = [
        argument for argument in arguments if argument.name in repeated_names and not argument.has_explicit_name
    ]
    parts = [list(reversed(argument.paths[0].resolve().parts)) for argument in ambiguous]
    level = next((i for i, names in enumerate(zip(*parts, strict=False)) if len(set(names)) == len(ambiguous)), None)
    if len(ambiguous) < 2 or level is None:
        return arguments
    names_by_argument = {
        id(argument): _stem(Path(part[level])) for argument, part in zip(ambiguous, parts, strict=True)
    }
    return [replace(argument, name=names_by_argument.get(id(argument), argument.name)) for argument in arguments]


def distinct_names(names: list[str]) -> list[str]:
    """The names, numbered where two runs have the same: log, log#2."""
    count_by_name: dict[str, int] = {}
    distinct = []
    for name in names:
        count_by_name[name] = count_by_name.get(name, 0) + 1
        distinct.append(name if count_by_name[name] == 1 else f"{name}#{count_by_name[name]}")
    return distinct


def _split_name(text: str) -> tuple[str | None, str]:
    """NAME=PATH in its parts. Both may hold a "=": the split at which the path exists is taken, else the first."""
    if Path(text).exists():
        return None, text
    split = re.match(r"([^=/\\]+)=(.+)", text, flags=re.DOTALL)
    if split is None:
        return None, text
    for position in (equals_sign.start() for equals_sign in re.finditer("=", text)):  # lr=1=runs/first
        name, path = text[:position], text[position + 1 :]
        if path and "/" not in name and Path(path).expanduser().exists():
            return name, path
    return split[1], split[2]


def _files_below(folder: Path) -> tuple[Path, ...]:
    """All files of a folder and its subfolders, hidden ones left out."""
    if any(is_run(child) for child in folder.iterdir() if child.is_dir()):
        raise OffleashError(f"{folder} holds run folders. Name one, or quote a glob to merge them ('{folder}/*').")
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
    if not files:
        raise OffleashError(f"{folder} is an empty folder. Name the folder that has the logs.")
    return tuple(
        member
        for file in sorted(files, key=_natural_sort_key)
        for member in sorted(archive_members(file), key=_natural_sort_key)
    )


def _natural_sort_key(path: Path) -> list[tuple[int, int, str]]:
    """Sort key by which digits compare as numbers."""
    parts = re.split(r"(\d+)", os.fspath(path))
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def _stem(path: Path) -> str:
    """The name of a file without the endings of logs; other dots belong to it (qwen2.5-7b)."""
    name = path.name
    while (ending := Path(name).suffix.lower()) in ENDINGS:
        name = name[: -len(ending)]
    return printable_name(name or path.name)


def _common_name(files: list[Path]) -> str:
    """The name of merged files: what their names begin with, else that of their folder."""
    if len(files) == 1:
        return _stem(files[0])
    stems = sorted(_stem(file) for file in files)
    matching_prefix = (a == b for a, b in zip(stems[0], stems[-1], strict=False))
    common = "".join(
        letter for letter, _ in takewhile(lambda pair: pair[1], zip(stems[0], matching_prefix, strict=False))
    )
    common = common.rstrip("-_.0123456789")  # output-rs0, output-rs1 -> output-rs
    return common or printable_name(files[0].parent.name) or "run"


def _similar_path_hint(path: Path) -> str:
    """The end of the error for a path that does not exist: the nearest name, or that the folder is missing too."""
    if not path.parent.is_dir():
        return f" There is no folder {os.fspath(path.parent)!r} either."
    close_matches = get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.7)
    return f" Did you mean {os.fspath(path.parent / close_matches[0])!r}?" if close_matches else ""


def run_folders(arguments: Sequence[str]) -> list[Path]:
    """The run folders that the arguments name, each checked."""
    return [_run_folder(Path(argument)) for argument in arguments]


def _run_folder(path: Path) -> Path:
    """The path, if it is a run folder."""
    if path.is_dir() and is_run(path):
        return path
    if path.is_dir():
        raise OffleashError(
            f"{path} is not a run folder: it has no run.json. For logs, run offleash import {path} -o RUN first."
        )
    raise OffleashError(f"There is no run folder {path}. To make one from logs: offleash import LOGS -o RUN.")


def inputs_are_certificates(inputs: Sequence[object], rule: str | None = None, question: str | None = None) -> bool:
    """Whether the inputs name certificates, all of them; certificates beside runs are refused."""
    names = [str(run_input) for run_input in inputs if isinstance(run_input, str | Path)]
    paths = [path for argument in names for path in parse_argument(argument).paths]
    folders = [path for path in paths if path.is_dir()]  # a certificate is a folder: files need not load its reader
    if folders:
        from offleash.data.certificates import is_certificate

        folders = [path for path in folders if is_certificate(path)]
    certificates = folders
    if not certificates:
        if question is not None:
            raise OffleashError(
                f"--question {question} needs certificates (offleash certify), but these are runs. Leave it out."
            )
        return False
    if len(certificates) < len(paths) or len(names) < len(inputs):
        other = next((path for path in paths if path not in certificates), "a run in memory")
        raise OffleashError(
            f"{certificates[0]} is a certificate and {other} is not; probabilities cannot be compared with counts. "
            "Certify both models (offleash certify), or compare two runs."
        )
    if rule not in (None, "certified"):
        raise OffleashError(f"--rule {rule} counts samples, but certificates have none. Leave it out.")
    return True
