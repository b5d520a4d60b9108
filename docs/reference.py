"""python docs/reference.py: writes docs/cli.md and docs/api.md from the declarations of the public functions.

Nothing in them is written by hand, so that a flag, its keyword and its help can only agree; a test fails when they are
stale (`make docs` writes them again).
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import offleash
from offleash.cli.builder import PYTHON_EXAMPLE_HEADING, metavar, note
from offleash.cli.verbs import SECTIONS, Verb
from offleash.results.result import Result
from offleash.signatures import Option, describe, expected_text, group_options

HERE = Path(__file__).parent
HEAD = "<!-- written by docs/reference.py; do not edit -->\n"
EXAMPLES = "Examples:"
EXIT_CODES = """| exit code | meaning |
|---|---|
| 0 | the command did what it says |
| 1 | it did, and something is missing or wrong in what it looked at: samples, gold answers, a run folder |
| 2 | it could not be carried out; the message says what was found and the next step |
| 3 | it did, and a condition of `--fail-if` fails |
| 70 | an error of offleash itself, please report it (`OFFLEASH_TRACEBACK=1` shows where it happened) |
| 130 | Ctrl-C; 143 and 129 after SIGTERM and SIGHUP: run the same command again to resume |
| 141 | whatever read the output left (`offleash ... \\| head`) |"""


def cli() -> str:
    """Every verb with its arguments, options and examples."""
    parts = [
        HEAD,
        "# The command line",
        "Every command takes `--json` (the keys are in [json.md](json.md)) and `--help`. A command is a function "
        "in Python too, with the same options: [api.md](api.md). Progress goes to standard error, results to standard "
        "output. "
        "`offleash completion bash`, `zsh` or `fish` prints a script for shell completion.",
        EXIT_CODES,
    ]
    for section, verbs in SECTIONS.items():
        parts.append(f"## {section}")
        parts.append(
            "\n".join(f"* [`offleash {verb.name}`](#offleash-{_anchor(verb.name)}): {verb.summary}" for verb in verbs)
        )
    for verbs in SECTIONS.values():
        parts += [part for verb in verbs for part in _verb(verb)]
    return "\n\n".join(parts) + "\n"


def _verb(verb: Verb) -> Iterator[str]:
    declared, (about, shell, _) = describe(verb.load()), _docstring(verb.load())
    arguments = " ".join(argument.data.metavar for argument in declared.arguments)
    yield f"### offleash {verb.name}"
    yield f"`offleash {verb.name}{f' {arguments}' if arguments else ''} [OPTIONS]`; in Python `ol.{declared.verb}`."
    yield about
    if declared.arguments:
        yield "\n".join(f"* `{one.data.metavar}`: {one.data.help}" for one in declared.arguments)
    if declared.options:
        yield _table(declared.options.values(), ("option", "what it does"), _flag_row)
    yield f"```text\n{shell}\n```"


def _flag_row(option: Option) -> tuple[str, str]:
    short = f"{option.flag.short}, " if option.flag.short not in ("", option.name) else ""
    if option.kind == "switch":
        typed = option.name if option.default is False else f"--no-{option.name[2:]}"
        return f"`{typed}`", f"{option.flag.help}{' On by default.' if option.default is True else ''}"
    return f"`{short}{option.name} {metavar(option)}`", f"{option.flag.help}{note(option)}"


def api() -> str:
    """Every public name of the package."""
    functions = {name: value for name, value in _public().items() if inspect.isfunction(value)}
    verbs = {name: value for name, value in functions.items() if hasattr(value, "__wrapped__")}
    classes = {name: value for name, value in _public().items() if inspect.isclass(value)}
    groups = {name: value for name, value in classes.items() if value.__module__ == "offleash.options"}
    results = {name: value for name, value in classes.items() if issubclass(value, Result)}
    parts = [
        HEAD,
        "# The Python interface",
        "`import offleash as ol`. Every command of the [command line](cli.md) is a function with the same options, "
        "checked in the same place: a flag `--max-tokens` is the keyword `max_tokens`. Where a flag is called "
        "otherwise, the tables say it.",
        "Options that several functions share are [groups](#groups-of-options): `ol.draw(..., "
        'decoding=ol.Decoding("paper", max_tokens=2048))`. A field of a group may also be given by itself, '
        '`ol.draw(..., max_tokens=2048)`, and `decoding="paper"` is `decoding=ol.Decoding("paper")`; type checkers '
        "know the groups.",
        "Functions return [results](#results). Every result has `to_dict()` (what `--json` prints), `show()` (what the "
        "command line prints; `repr` is the beginning of it, at most a screen), `save(path)`, `figure(name)` where it "
        "has figures, and `ok`. Errors that you can fix are `ol.OffleashError`: the message says what was found and "
        "what to do.",
        "Some parameters have no flag: `progress=print` shows what is being done, `announce=print` what is about to be "
        "done and its cost, `each` gets every row of a file as it is judged or scored, and `command` is what a page "
        "says made it.",
        "## Functions",
        "\n".join(f"* [`ol.{name}`](#ol{name}): {_first(value)}" for name, value in verbs.items()),
    ]
    for name, function in verbs.items():
        parts += _function(name, function)
    parts += ["## Groups of options"]
    for name, group in groups.items():
        parts += _group(name, group)
    parts += ["## Results", *(part for name, one in results.items() for part in _result(name, one))]
    parts += [
        "## Arithmetic on counts",
        *(_plain(name, value) for name, value in functions.items() if name not in verbs),
    ]
    return "\n\n".join(parts) + "\n"


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    declared, (about, _, python) = describe(function), _docstring(function)
    yield f"### ol.{name}"
    yield f"```python\n{_call(name, function)}\n```"
    yield about
    own = [option for option in declared.options.values() if not option.group]
    if declared.arguments:
        yield "\n".join(f"* `{one.keyword}`: {one.data.help}" for one in declared.arguments)
    if own:
        yield _table(own, ("keyword", "flag", "what it does"), _keyword_row)
    groups = {**declared.groups, **{option.group: None for option in declared.options.values() if option.group}}
    if groups:
        yield f"And the groups {', '.join(f'`{group}`' for group in groups)}."
    if python:
        yield _session(python)


def _call(name: str, function: Callable[..., Any]) -> str:
    """A signature without its types, a line each where it is long."""
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = parameter.default
        named = getattr(default, "__name__", repr(default))
        named = f"{type(default).__name__}()" if is_dataclass(default) else named
        named = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else named
        if parameter.kind is parameter.KEYWORD_ONLY and not any(one.startswith("*") for one in shown):
            shown.append("*")
        shown.append(f"{stars}{parameter.name}" + ("" if default is parameter.empty else f"={named}"))
    returned = str(inspect.signature(function).return_annotation).strip("'\"")
    returned = returned if "<class" not in returned else inspect.signature(function).return_annotation.__name__
    line = f"ol.{name}({', '.join(shown)}) -> {returned}"
    return line if len(line) <= 110 else "ol.{}(\n    {},\n) -> {}".format(name, ",\n    ".join(shown), returned)


def _keyword_row(option: Option) -> tuple[str, str, str]:
    default = "" if option.default in (MISSING, None, False, (), {}) else f" Default: `{option.default!r}`."
    required = " Required." if option.default is MISSING else ""
    said = "" if "Default" in option.flag.help else default
    values = f" Takes {expected_text(option)}." if option.flag.choices else ""
    return f"`{option.keyword}`", f"`{option.name}`", f"{option.flag.help}{values}{said}{required}"


def _group(name: str, group: type) -> Iterator[str]:
    yield f"### ol.{name}"
    yield from _with_example(group)
    yield _table(list(group_options("", group)), ("field", "flag", "what it does"), _keyword_row)


def _result(name: str, one: type) -> Iterator[str]:
    yield f"### ol.{name}"
    yield from _with_example(one)
    shown = [f"`{field.name}`" for field in fields(one) if not field.name.startswith("_")] if is_dataclass(one) else []
    own = [
        f"`{key}`" if isinstance(value, property) else f"`{key}()`"
        for key, value in vars(one).items()
        if not key.startswith("_")
        and key not in ("to_dict", "show", "ok", "lines", "pending_error")
        and (isinstance(value, property) or inspect.isfunction(value))
    ]
    yield f"Fields: {', '.join(shown)}." + (f" Also: {', '.join(own)}." if own else "")


def _plain(name: str, function: Callable[..., Any]) -> str:
    about = "\n\n".join(_with_example(function))
    return f"### ol.{name}\n\n```python\n{_call(name, function)}\n```\n\n{about}"


def _with_example(documented: Any) -> Iterator[str]:
    """What a docstring says, then its example."""
    about, prompt, example = inspect.cleandoc(documented.__doc__ or "").partition(">>> ")
    yield _inline(about.strip())
    if prompt:
        yield _session(prompt + example)


def _session(example: str) -> str:
    """An example with its output; the tests run it, so directives for them are left out."""
    return f"```pycon\n{re.sub(r'  # doctest:.*', '', example)}\n```"


def _table(options: Any, head: tuple[str, ...], row: Callable[[Option], tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(
        lines + [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row(option))} |" for option in options]
    )


def _docstring(function: Callable[..., Any]) -> tuple[str, str, str]:
    """What a docstring says, its examples of the command line, and its Python."""
    whole, _, python = inspect.cleandoc(function.__doc__ or "").partition(PYTHON_EXAMPLE_HEADING)
    about, _, shell = whole.partition(EXAMPLES)
    return _inline(about.strip()), inspect.cleandoc(shell), inspect.cleandoc(python)


def _inline(text: str) -> str:
    """A text whose <think> and the like are not taken for HTML."""
    return re.sub(r"<(/?\w+)>", r"`<\1>`", text)


def _first(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").splitlines()[0]


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _public() -> dict[str, Any]:
    return {name: getattr(offleash, name) for name in offleash.__all__}


if __name__ == "__main__":
    (HERE / "cli.md").write_text(cli(), encoding="utf-8")
    (HERE / "api.md").write_text(api(), encoding="utf-8")
