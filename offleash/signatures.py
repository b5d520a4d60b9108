"""What a public function declares, read from its signature, and the check of calls against it.

`describe` is the one reader of the declarations (options.py). `verb` makes a function public: it checks the values of a
call before the function runs, so that Python and the command line refuse a value with the same message.
"""

import inspect
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, ForwardRef, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from offleash.errors import OffleashError
from offleash.options import PAPER, Data, ExcludedOptions, Flag, OptionsOf

P = ParamSpec("P")
R = TypeVar("R")


# Declarations: the arguments, options and groups of a function.


@dataclass(frozen=True)
class Option:
    """One option of a function."""

    keyword: str
    flag: Flag
    kind: str  # whole, number, text, path, switch, pairs, texts, numbers or budget: how a value is read and checked
    default: object  # MISSING: it must be given
    group: str = ""  # the parameter whose field it is
    heading: str = ""  # of that group, in the help

    @property
    def name(self) -> str:
        """As it is typed: --max-tokens; -k if there is no long form."""
        return self.flag.name or (
            self.flag.short if self.flag.short == f"-{self.keyword}" else _flag_name(self.keyword)
        )


@dataclass(frozen=True)
class DataArgument:
    """A positional argument of a function."""

    keyword: str
    data: Data
    is_repeated: bool
    required: bool


@dataclass(frozen=True)
class Declaration:
    """Everything that a function declares."""

    verb: str
    arguments: tuple[DataArgument, ...]
    options: Mapping[str, Option]  # by keyword
    groups: Mapping[str, type]  # by parameter
    defaults: Mapping[str, object]  # of the groups
    python_only: tuple[str, ...]  # parameters that are not options: progress, callbacks
    forwarded: tuple[str, ...] = ()  # groups of the function that `**options` is passed to


@cache
def describe(function: Callable[..., object]) -> Declaration:
    """What a public function declares; parameters that are neither data, option nor group are for Python only."""
    arguments: list[DataArgument] = []
    options: dict[str, Option] = {}
    groups: dict[str, type] = {}
    defaults: dict[str, object] = {}
    python_only: list[str] = []
    forwarded: list[str] = []
    own_parameters = set(inspect.signature(function).parameters)
    for parameter in inspect.signature(function).parameters.values():
        hint, annotations = _unwrap(parameter.annotation)
        flag = next((annotation for annotation in annotations if isinstance(annotation, Flag)), None)
        data = next((annotation for annotation in annotations if isinstance(annotation, Data)), None)
        default = MISSING if parameter.default is parameter.empty else parameter.default
        if data is not None:
            is_variadic = parameter.kind is parameter.VAR_POSITIONAL
            required = default is MISSING and not data.metavar.startswith("[")
            arguments.append(DataArgument(parameter.name, data, is_variadic, required))
        elif flag is not None:
            options[parameter.name] = Option(parameter.name, flag, _kind_of(hint), default, heading=flag.heading)
        elif (group := _group_of(hint)) is not None:
            groups[parameter.name], defaults[parameter.name] = group, default
            left_out = next(
                (annotation.names for annotation in annotations if isinstance(annotation, ExcludedOptions)), frozenset()
            )
            # a parameter of the function wins over a field of the same name: the grid of `sweep` over one temperature
            excluded = left_out | (own_parameters - {parameter.name})
            for option in group_options(parameter.name, group):
                if option.keyword not in excluded:  # a group that may be None has no defaults of its own
                    options[option.keyword] = replace(option, default=None) if default is None else option
        elif parameter.kind is parameter.VAR_KEYWORD:
            for annotation in (annotation for annotation in annotations if isinstance(annotation, OptionsOf)):
                other = describe(annotation.function)
                forwarded += other.groups
                heading = f"Options of {other.verb}"
                options |= {
                    name: replace(option, heading=option.heading or heading)
                    for name, option in other.options.items()
                    if name not in (*annotation.without, *options)
                }
        else:
            python_only.append(parameter.name)
    name = getattr(function, "__name__", "")
    return Declaration(name, tuple(arguments), options, groups, defaults, tuple(python_only), tuple(forwarded))


def group_options(parameter: str, group: type) -> Iterator[Option]:
    """The options that the fields of a group declare; `parameter` takes the group."""
    hints = get_type_hints(group, include_extras=True)
    # the heading of its options in --help: the docstring's first line, up to the first punctuation
    heading = (group.__doc__ or "").partition("\n")[0].partition(":")[0]
    for group_field in fields(group):
        hint, (flag, *_) = _unwrap(hints[group_field.name])
        default = group_field.default if group_field.default_factory is MISSING else group_field.default_factory()
        yield Option(group_field.name, flag, _kind_of(hint), default, parameter, heading.partition(",")[0].rstrip("."))


def _group_of(hint: object) -> type | None:
    """The group that a parameter takes, or None; an optional group is a union with None."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((part for part in parts if isinstance(part, type) and is_dataclass(part)), None)


def _unwrap(annotation: object) -> tuple[Any, tuple[Any, ...]]:
    """The type in `Annotated[type, marks...]`, and the marks."""
    if get_origin(annotation) is Annotated:
        hint, *annotations = get_args(annotation)
        return hint, tuple(annotations)
    return annotation, ()


def _kind_of(hint: object) -> str:
    parts = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    parts -= {type(None)}
    types_only = {part for part in parts if isinstance(part, type)}
    if any(get_origin(part) is Mapping for part in parts):
        return "pairs"
    if Sequence[float] in parts:
        return "numbers"
    if Sequence[str] in parts:
        return "texts"
    for kind, accepted_types in KINDS.items():
        if types_only == accepted_types and not any(isinstance(part, ForwardRef) for part in parts):
            return kind
    raise TypeError(f"options of type {hint} are not supported")


KINDS: Mapping[str, set[type]] = {
    "switch": {bool},
    "whole": {int},
    "number": {float},
    "text": {str},
    "path": {str, Path},
    "budget": {int, str},
}


# The check of a call, the same for Python and the command line.


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function public: its options are checked before it runs.

    Fields of a group may be given directly: `draw(..., temperature=0.6)` is
    `draw(..., decoding=Decoding(temperature=0.6))`, and `decoding="paper"` is `decoding=Decoding("paper")`.
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **check_options(function, kwargs, len(args)))  # type: ignore[arg-type]

    return checked


def check_options(
    function: Callable[..., object], given: Mapping[str, object], positional: int = 0
) -> dict[str, object]:
    """The keyword arguments of a call, with values checked and fields collected into their groups."""
    declared = describe(function)
    arguments = {argument.keyword for argument in declared.arguments}
    checked: dict[str, object] = {}
    group_values: dict[str, dict[str, object]] = {}
    for name, value in given.items():
        option = declared.options.get(name)
        if name in declared.groups and not (option and option.group == name and isinstance(value, str)):
            checked[name] = _check_group(declared, name, value)
        elif option is not None and option.group in declared.groups:
            group_values.setdefault(option.group, {})[name] = check_value(option, value)
        elif option is not None:
            checked[name] = check_value(option, value)
        elif name in (*declared.python_only, *declared.forwarded, *arguments):
            checked[name] = value
        else:
            raise unknown_option(declared, declared.verb, name, [*declared.options, *declared.groups], str)
    for group, values in group_values.items():
        group_value: Any = checked.get(group)
        checked[group] = declared.groups[group](**values) if group_value is None else replace(group_value, **values)
    for argument in declared.arguments[positional:]:
        is_optional = argument.data.unless is not None and checked.get(argument.data.unless)
        if argument.required and not is_optional and argument.keyword not in checked:
            raise missing_error(declared.verb, argument)
    for name, option in declared.options.items():
        if option.default is MISSING and name not in checked:
            raise missing_error(declared.verb, option)
    return checked


def missing_error(verb_name: str, required: DataArgument | Option) -> OffleashError:
    """The error for a required argument or option that was not given."""
    if isinstance(required, Option):
        return OffleashError(f"{verb_name} needs {required.name}. {required.flag.help}")
    return OffleashError(f"{verb_name} needs {required.data.metavar}. {required.data.help}")


def _check_group(declared: Declaration, name: str, value: object) -> object:
    kind = declared.groups[name]
    if value is None:
        return declared.defaults[name]
    if not isinstance(value, kind):
        raise OffleashError(
            f"{name} of {declared.verb} takes a {kind.__name__}. Found {value!r:.60}: give {name}={kind.__name__}(...)."
        )
    changed = {}
    for option in group_options(name, kind):
        now = getattr(value, option.keyword)
        if option.keyword in declared.options and declared.options[option.keyword].group == name:
            changed[option.keyword] = check_value(option, now)
        elif now != option.default:
            raise OffleashError(f"{declared.verb} has no option {option.name}. Leave it out of {kind.__name__}.")
    group: Any = value
    return replace(group, **changed)


def unknown_option(
    declared: Declaration, verb_name: str, typed: str, known: Sequence[str], spell: Callable[[str], str]
) -> OffleashError:
    """The error for an option that does not exist: with its new name, else the closest; `spell` is as users type."""
    option_name = typed.lstrip("-").replace("-", "_")
    new = next(
        (
            new
            for new in RENAMED_OPTIONS.get(option_name, ())
            if new in declared.options and option_name not in declared.options
        ),
        None,
    )
    if new is not None:
        return OffleashError(f"{verb_name} no longer has the option {typed!r}. Use {spell(new)!r}.")
    by_spelling = {spell(name): name for name in known}
    for name, option in declared.options.items():  # a flag typed as the keyword, or a keyword as the flag
        by_spelling |= {_flag_name(name): name, option.name: name, option.name.lstrip("-"): name}
    close_matches = [
        name for name in by_spelling if len(option_name) > 2 and name.startswith(typed)
    ] or get_close_matches(typed, by_spelling, n=1)
    names = sorted(dict.fromkeys(map(spell, known)))
    some_names = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    hint = (
        f" Did you mean {spell(by_spelling[close_matches[0]])!r}?" if close_matches else f" Its options: {some_names}."
    )
    return OffleashError(f"{verb_name} has no option {typed!r}.{hint}")


# Until 0.2: former names of options, and their new names; the first that the function has.
RENAMED_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "verify": ("verifier",),
    "verifier": ("verdicts",),
    "format": ("log_format",),
    "into": ("out",),
    "referee": ("judge",),
    "referee_model": ("judge_model",),
    "k": ("at",),
    "seed": ("problem_seed",),
    "open_": ("open",),
}


def check_value(option: Option, value: object) -> object:
    """A value as its function takes it; refused if the option does not take it."""
    if value is None and (option.default is None or option.kind in ("pairs", "texts")):
        return option.default
    if option.kind == "path" and isinstance(value, str | Path):
        return Path(value)
    if option.kind == "pairs" and isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    if option.kind == "texts" and isinstance(value, str | Collection):
        return tuple(_check_choice(option, text) for text in ((value,) if isinstance(value, str) else value))
    if option.kind == "numbers" and isinstance(value, Real | Iterable) and not isinstance(value, bool | str):
        numbers = [check_value(replace(option, kind="number"), part) for part in _as_list(value)]
        if not numbers:
            raise invalid_value(option, "nothing")
        return tuple(dict.fromkeys(numbers))
    if option.kind == "budget" and value == PAPER:
        return value
    if option.kind in ("whole", "budget") and isinstance(value, Integral) and not isinstance(value, bool):
        return _check_range(option, int(value), value)
    if option.kind == "number" and isinstance(value, Real) and not isinstance(value, bool):
        try:
            return _check_range(option, float(value), value)
        except OverflowError:  # a whole number beyond all floats
            raise invalid_value(option, value) from None
    if option.kind == "text" and isinstance(value, str):
        return _check_choice(option, value)
    if option.kind == "switch" and isinstance(value, bool):
        return value
    if isinstance(value, str):
        return parse_value(option, value)
    raise invalid_value(option, value)


def _as_list(value: Any) -> Iterable[object]:
    return (value,) if isinstance(value, Real) else value


def parse_value(option: Option, typed: str | Sequence[str]) -> object:
    """The value of typed text; several texts if the flag is repeatable."""
    texts = [typed] if isinstance(typed, str) else typed
    text = texts[-1]
    if option.kind in ("whole", "budget") and text != PAPER:
        digits = text.replace(",", "") if GROUPED_DIGITS.fullmatch(text) else text
        return check_value(option, _number(option, text, digits, int))
    if option.kind == "number":
        return check_value(option, _number(option, text, text, float))
    if option.kind == "numbers":
        return check_value(option, [_number(option, word, word, float, text) for word in text.split(",")])
    if option.kind == "pairs":
        return _pairs(option, texts)
    if option.kind == "switch":
        raise invalid_value(option, text)
    return check_value(option, tuple(texts) if option.kind == "texts" else text)


def _number(
    option: Option, typed: str, digits: str, kind: Callable[[str], float], full_value: str | None = None
) -> float:
    try:
        return kind(digits)
    except ValueError:
        raise invalid_value(option, typed, full_value) from None


def _pairs(option: Option, texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise invalid_value(option, text)
        if name in pairs:
            raise OffleashError(f"{option.name} {name} is given twice: {pairs[name]!r} and {value!r}. Leave one out.")
        pairs[name] = value
    return pairs


def _check_choice(option: Option, text: str) -> str:
    if not isinstance(text, str) or (option.flag.choices and text not in option.flag.choices):
        raise invalid_value(option, text)
    return text


def _check_range(option: Option, value: Any, original: object) -> Any:
    flag = option.flag
    is_valid = isinstance(value, int) or math.isfinite(value)
    is_valid = is_valid and (flag.least is None or value >= flag.least) and (flag.most is None or value <= flag.most)
    is_valid = is_valid and (flag.above is None or value > flag.above) and (flag.below is None or value < flag.below)
    if not is_valid:
        raise invalid_value(option, original)
    return value


def invalid_value(option: Option, value: object, full_value: object = None) -> OffleashError:
    """The error for a value that an option does not accept; `full_value` is the list that the value is part of."""
    close_matches = get_close_matches(str(value), option.flag.choices, n=1)
    hint = f"; did you mean {close_matches[0]!r}?" if close_matches else "."
    shown: object = value
    if isinstance(value, float) and option.kind == "number":
        shown = f"{value:g}"  # Python's 1.0 is the 1 that was typed
    elif option.kind in ("text", "texts") or value == "":
        shown = repr(value)
    value_text = f"{str(value)!r} in {option.name} {full_value}" if full_value is not None else f"{option.name} {shown}"
    return OffleashError(f"{option.name} takes {expected_text(option)}. Found {value_text[:100]}{hint}")


def expected_text(option: Option) -> str:
    """Which values an option takes, in words."""
    flag = option.flag
    if flag.choices:
        *head, last = flag.choices
        return f"{', '.join(head)} or {last}" if head else last
    if option.kind == "pairs":
        return f"{flag.metavar}, for example {EXAMPLES[option.name]}"
    if option.kind == "switch":
        return "True or False"
    if option.kind == "path":
        return "a path"
    if option.kind in ("text", "texts"):
        return "a string"
    noun = {"number": "a number", "numbers": "numbers, separated by commas,"}.get(option.kind, "a whole number")
    low = "" if flag.above is None else f" above {flag.above:,g}"
    low = low or ("" if flag.least is None else f" from {flag.least:,g}")
    high = (
        "" if flag.most is None else f" to {flag.most:,.0f}" if flag.above is None else f" and at most {flag.most:,g}"
    )
    high = high or ("" if flag.below is None else f" {'and' if flag.least is None else 'to'} below {flag.below:,g}")
    return f"{noun}{low}{high}" + (" or 'paper'" if option.kind == "budget" else "")


GROUPED_DIGITS = re.compile(r"\d{1,3}(,\d{3})+")  # 8,192
EXAMPLES = {"--map": "--map text=response", "--set": "--set dtype=bfloat16"}


def _flag_name(keyword: str) -> str:
    return f"--{keyword.rstrip('_').replace('_', '-')}"
