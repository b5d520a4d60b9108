"""From the signature of a public function to a command: flags, grouped help, and the call.

A function declares its options (offleash/options.py); this file turns the declaration into a typer command. Typed text
is turned into values by `parse_value`, so that Python and the command line share every check. There is no logic here:
what a verb does is in api/ or lab/.
"""

from collections.abc import Callable
from dataclasses import MISSING
from inspect import Parameter, Signature, cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from offleash.cli.output import command_line, print_json, progress, warn
from offleash.cli.verbs import Verb
from offleash.errors import OffleashError
from offleash.signatures import DataArgument, Declaration, Option, describe, missing_error, parse_value, unknown_option

# the base of BadParameter, whether typer brings its own click or uses the one that is installed
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
JSON = "as_json"  # the keyword of --json, which no function has: results know their own JSON
PYTHON_EXAMPLE_HEADING = "In Python:"  # what follows it in a docstring is for docs/api.md, not for --help


def run_command(verb: Verb, words: list[str]) -> None:
    """Run a verb with the words that were typed after it; exits the process as typer does."""
    command_of(verb)(words, prog_name=f"offleash {verb.name}")


def command_of(verb: Verb) -> Any:
    """The command that the signature of a verb's function declares."""
    function = verb.load()
    declared = describe(function)

    def run(**typed: Any) -> None:
        _run(function, declared, typed)

    run.__signature__ = Signature([*_arguments(declared), *_options(declared), _json()])  # type: ignore[attr-defined]
    run.__doc__ = help_text(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    # no completion and no rich tracebacks: both cost start-up time, and errors have one form (cli/main.py)
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
    app.command(verb.name, cls=VerbCommand, context_settings=settings)(run)
    command: Any = typer.main.get_command(app)
    command.declared, command.verb = declared, verb.name
    return command


class VerbCommand(TyperCommand):
    """A command with grouped options in its help, and with errors in our form: the value found, the next step."""

    declared: Declaration
    verb: str

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words typed, as text: values are parsed and checked by offleash/signatures.py.

        Typer's own conversion is skipped on purpose: it would import pydantic, which takes longer than everything else.
        """
        try:
            typed, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        except UsageError as error:
            raise self._usage_error(error) from None
        if typed.get("help"):
            print(self.get_help(ctx))
            ctx.exit()
        # typer would report these by its own names and in its own form
        for argument in self.declared.arguments:
            is_optional = argument.data.unless is not None and typed.get(argument.data.unless)
            if argument.required and not is_optional and not typed.get(argument.keyword):
                raise missing_error(self.verb, argument)
        if rest:
            raise OffleashError(
                f"{self.verb} got an unexpected argument {rest[0]!r}. See: offleash {self.verb} --help."
            )
        for option in self.declared.options.values():
            if option.default is MISSING and not typed.get(option.keyword):
                raise missing_error(self.verb, option)
        ctx.params = {
            parameter.name: _typed_value(typed.get(parameter.name))
            for parameter in self.params
            if parameter.name != "help"
        }
        return []

    def _usage_error(self, error: Exception) -> OffleashError:
        """An error of the parser in our form: for an unknown option with the nearest one that exists."""
        typed = getattr(error, "option_name", None)
        if typed and type(error).__name__ == "NoSuchOption":
            known = {option.keyword: option.name for option in self.declared.options.values()}
            known |= {"json": "--json"}
            return unknown_option(self.declared, self.verb, typed, list(known), lambda name: known[name])
        message = str(getattr(error, "message", error)).rstrip(".")
        return OffleashError(f"{message}. See: offleash {self.verb} --help.")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments before options in the usage line, since they are typed in that order."""
        return [*map(usage, self.declared.arguments), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options by heading; without rich, whose help takes 0.2 s to load."""
        arguments = [(argument.data.metavar, argument.data.help) for argument in self.declared.arguments]
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": arguments} if arguments else {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name != "argument":
                rows.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
        for heading, records in rows.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _typed_value(value: Any) -> Any:
    """A value from the parser; None if nothing was typed, for which versions of click use different sentinels."""
    return value if isinstance(value, str | bool | list | tuple) else None


def help_text(function: Callable[..., object]) -> str:
    """The docstring of a function as --help: without its Python part.

    \\b on a line of its own keeps click from rewrapping what follows, so that examples keep their lines.
    """
    text = cleandoc(function.__doc__ or "").partition(PYTHON_EXAMPLE_HEADING)[0].rstrip()
    return text.replace("\n\nExamples:\n", "\n\n\b\nExamples:\n")


def usage(argument: DataArgument) -> str:
    """An argument in the usage line: in brackets if it is optional."""
    name = argument.data.metavar
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _arguments(declared: Declaration) -> list[Parameter]:
    return [_argument(argument) for argument in declared.arguments]


def _argument(argument: DataArgument) -> Parameter:
    """An argument for typer. All are strings: values are parsed by offleash/signatures.py, as for Python calls."""
    kind: Any = list[str] | None if argument.is_repeated else str if argument.required else str | None
    about = typer.Argument(metavar=argument.data.metavar, help=argument.data.help, show_default=False)
    default = Parameter.empty if argument.required and not argument.is_repeated else None
    return Parameter(argument.keyword, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])


def _options(declared: Declaration) -> list[Parameter]:
    """Options without a heading first, as in the help."""
    ordered_options = sorted(declared.options.values(), key=lambda option: bool(option.heading))
    return [_option(option) for option in ordered_options]


def _option(option: Option) -> Parameter:
    """An option for typer; None stands for "not typed", so that the function's own default applies."""
    switch, many = option.kind == "switch", option.kind in ("pairs", "texts")
    names = [option.name] if not switch or option.default is False else [f"{option.name}/--no-{option.name[2:]}"]
    about = typer.Option(
        *([option.flag.short] if option.flag.short not in ("", option.name) else []),
        *names,
        metavar=None if switch else metavar(option),
        help=f"{option.flag.help}{note(option)}",
        show_default=False,
        rich_help_panel=option.heading or None,
    )
    kind: Any = bool | None if switch else list[str] | None if many else str | None
    return Parameter(option.keyword, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, about])


def metavar(option: Option) -> str:
    """The placeholder of an option's value in the help: its own, else its choices."""
    return option.flag.metavar or ("|".join(option.flag.choices) if option.flag.choices else "TEXT")


def note(option: Option) -> str:
    """What the help adds about a default: nothing if it is obvious, or if the text mentions it."""
    if option.default is MISSING:
        return " [required]"
    default_in_help = "Default" in option.flag.help or "0:" in option.flag.help
    if option.default is None or option.default in ((), {}, "") or default_in_help or option.kind == "switch":
        return ""
    value = ",".join(map(str, option.default)) if isinstance(option.default, tuple) else option.default
    return f" [default: {f'{value:,}' if isinstance(value, int) and value > 9_999 else value}]"


def _json() -> Parameter:
    """--json, which every verb has."""
    about = typer.Option("--json", help="Print JSON for programs.")
    return Parameter(JSON, Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, about])


def _run(function: Callable[..., Any], declared: Declaration, typed: dict[str, Any]) -> None:
    """Call the function with what was typed and print its result; exit with the code that the result has.

    Options that were not typed get the function's defaults, which are defined nowhere else.
    """
    as_json = bool(typed.pop(JSON))
    arguments: list[Any] = []
    for argument in declared.arguments:
        value = typed.pop(argument.keyword)
        arguments += (value or []) if argument.is_repeated else [] if value is None or value == () else [value]
    values = {
        name: value if isinstance(value, bool) else parse_value(declared.options[name], value)
        for name, value in typed.items()
        if value is not None and value not in ([], ())
    }
    with progress(as_json) as shown:
        available = {"progress": shown, "announce": warn, "command": command_line(), "each": _line_printer(as_json)}
        callbacks = {name: value for name, value in available.items() if name in declared.python_only}
        result = function(*arguments, **values, **callbacks)
    # rows of a file were printed one by one as they came; printing them again would double the output
    is_streamed = "each" in callbacks and result.lines
    if as_json and not is_streamed:
        for document in result.to_dict() if result.lines else [result.to_dict()]:
            print_json(document)
    elif not as_json:
        result.show()
    if hasattr(result, "serve"):  # `view` and `watch` run until Ctrl-C
        result.serve(print_json if as_json else None)
        (warn if as_json else print)("Stopped; nothing was changed.")
    # last, so that the result is printed even if, say, a figure could not be written
    if result.pending_error is not None:
        raise result.pending_error
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _line_printer(as_json: bool) -> Callable[[Any], None]:
    """What to do with each row of a file: print it with --json, else nothing (the function counts them)."""
    if not as_json:
        return lambda _: None
    from offleash.results.samples import row_document

    return lambda row: print_json(row_document(row))
