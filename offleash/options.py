"""Options of the public functions: how one is declared, the groups that several share, and the check of values.

A public function (api/, lab/) declares an option as a keyword parameter `Annotated[type, Flag(help)]`. Everything else
follows from that line: the flag of the command line and its help (cli/builder.py), docs/cli.md and docs/api.md
(docs/reference.py), and the check of values, which `verb` makes before the function runs, so that Python and the
command line refuse a value with the same message. `describe` is the one reader of these declarations.
"""

import inspect
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, ForwardRef, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from offleash.errors import OffleashError

P = ParamSpec("P")
R = TypeVar("R")


# How an option is declared.


@dataclass(frozen=True)
class Flag:
    """An option: what it does, how it is typed where that is not `--its-keyword`, and which values it takes."""

    help: str
    name: str = ""  # --map of the keyword `columns`
    short: str = ""  # -o
    metavar: str = ""  # what stands for its value in the help
    least: float | None = None  # smallest value
    most: float | None = None
    above: float | None = None  # smaller than every value
    below: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Data:
    """What a function works on; an argument of the command line, which has no flag."""

    metavar: str
    help: str


@dataclass(frozen=True)
class Without:
    """Fields of a group that mean nothing to a function that takes the group."""

    names: frozenset[str]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", frozenset(names))


@dataclass(frozen=True)
class OptionsOf:
    """On `**options`: those of another function, to which they are handed on, but for some."""

    function: Callable[..., object]
    without: tuple[str, ...] = ()


# Options that several functions take.


Columns = Annotated[
    Mapping[str, str],
    Flag("Read NAME from COLUMN, where a file calls it otherwise. Repeatable.", name="--map", metavar="NAME=COLUMN"),
]
SplitBy = Annotated[str | None, Flag("Take several runs from one file, by this column.", metavar="COLUMN")]
Verdicts = Annotated[
    str | None, Flag("Use the stored verdicts of this verifier, where a run has several.", metavar="NAME")
]
Verifier = Annotated[str | None, Flag("Judge with this verifier, not with each problem's own.", metavar="NAME")]
GoldFrom = Annotated[
    str | Path | None,
    Flag("Take gold answers, tests and verifiers from these problems (see: offleash problems).", metavar="PROBLEMS"),
]
Opened = Annotated[bool, Flag("The prompt ended in <think>: a text without </think> is unfinished.")]
At = Annotated[
    int | None,
    Flag("Compare at this budget: samples per problem. Default: the largest that all runs have.", metavar="K", least=1),
]
Allow = Annotated[
    Sequence[str],
    Flag("What may differ between the runs: decoding. Repeatable.", metavar="WORD", choices=("decoding",)),
]
Replicates = Annotated[int, Flag("Bootstrap replicates.", metavar="N", least=100, most=1_000_000)]
Seed = Annotated[int, Flag("Random seed.", metavar="S", least=0)]
Jobs = Annotated[int, Flag("Worker processes. 0: one per core.", metavar="N", least=0)]
TrustCode = Annotated[bool, Flag("Run model-written code even where no sandbox can be built. Read the warning first.")]
MOST_SAMPLES = 16_384 * 64  # per problem
K = Annotated[
    int | str,
    Flag("Samples per problem. paper: the paper's budget.", short="-k", metavar="K", least=1, most=MOST_SAMPLES),
]
Until = Annotated[int, Flag("Stop a problem at its M-th correct sample. 0: draw all.", metavar="M", least=0)]
ModelName = Annotated[str, Data("MODEL", "hf:PATH@REVISION+ADAPTER, vllm:PATH, endpoint:URL#NAME or scripted:FILE.")]


@dataclass(frozen=True)
class Reading:
    """How logs are read, where they do not say it themselves.

    >>> graded = ol.Reading(threshold=0.5)
    >>> ol.compare("examples/counts/base.csv", "examples/counts/rl.csv", reading=graded).ok
    True
    """

    columns: Columns = field(default_factory=dict)
    log_format: Annotated[
        str | None, Flag("Read logs as this format (see: offleash formats), not by their content.", metavar="NAME")
    ] = None
    filter: Annotated[
        str | None, Flag("Which of several filters (lm-eval) or scorers (inspect) decides.", metavar="NAME")
    ] = None
    threshold: Annotated[float, Flag("A score at or above this is correct.", metavar="SCORE")] = 1.0
    rows: Annotated[
        str | None, Flag("Where a JSON object holds its rows: a dotted path, data.results.", metavar="PATH")
    ] = None


@dataclass(frozen=True)
class Judging:
    """How samples are judged.

    >>> alone = ol.Judging(jobs=1, cache=False)
    >>> ol.verify("examples/rows.jsonl", verifier="math", judging=alone).ok
    True
    """

    jobs: Jobs = 0
    trust_code: TrustCode = False
    cache: Annotated[bool, Flag("Reuse verdicts of other runs, and keep these for them.")] = True
    judge: Annotated[
        str | None, Flag("OpenAI-compatible server of the model that the verifier model_judge asks.", metavar="URL")
    ] = None
    judge_model: Annotated[str | None, Flag("The model that it asks there.", metavar="NAME")] = None


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn: a decoding by name, and what differs from it: `Decoding("paper", max_tokens=2048)`.

    >>> paper = ol.Decoding("paper", max_tokens=2048)
    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=4, out="runs/base",
    ...                decoding=paper)
    """

    decoding: Annotated[
        str,
        Flag(
            "plain: the model's own distribution; paper: temperature 0.6, top-p 0.95, 32,768 tokens.",
            metavar="NAME",
            choices=("plain", "paper"),
        ),
    ] = "plain"
    temperature: Annotated[float | None, Flag("Instead of the decoding's.", metavar="T", least=0)] = None
    top_p: Annotated[float | None, Flag("Instead of the decoding's.", metavar="P", above=0, most=1)] = None
    top_k: Annotated[int | None, Flag("Instead of the decoding's. 0: all tokens.", metavar="N", least=0)] = None
    min_p: Annotated[
        float | None,
        Flag("Drop tokens below this share of the likeliest token's probability.", metavar="P", least=0, below=1),
    ] = None
    max_tokens: Annotated[
        int | None, Flag("Instead of the decoding's. A longer sample is cut.", metavar="N", least=1)
    ] = None
    stop: Annotated[Sequence[str], Flag("A text that ends a sample. Repeatable.", metavar="TEXT")] = ()


@dataclass(frozen=True)
class EngineOptions:
    """How models are opened.

    >>> engine = ol.EngineOptions(settings={"fail": "0.5"})
    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base",
    ...                engine=engine)
    >>> run.ok
    False
    """

    settings: Annotated[
        Mapping[str, str],
        Flag("An option of the engine, e.g. dtype=bfloat16. Repeatable.", name="--set", metavar="NAME=VALUE"),
    ] = field(default_factory=dict)
    raw: Annotated[bool, Flag("Give prompts as they are, without the model's chat template.")] = False


@dataclass(frozen=True)
class ProblemSelection:
    """Which problems of a set, and where the set is read from.

    >>> two = ol.ProblemSelection(size=2)
    >>> ol.problem_set("examples/problems.jsonl", selection=two).frame.height
    2
    """

    size: Annotated[
        int | None,
        Flag("How many problems: a random sample of a set, or as many generated ones.", metavar="N", least=1),
    ] = None
    problem_seed: Annotated[
        int, Flag("Random seed of that sample, or of generated problems.", metavar="S", least=0)
    ] = 0
    source: Annotated[
        str | Path | None,
        Flag("A local copy of the benchmark, instead of the hub.", name="--from", metavar="FILE"),
    ] = None
    columns: Columns = field(default_factory=dict)


# What a function declares, read from its signature.


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
        """As it is typed: --max-tokens; -k where there is no other."""
        return self.flag.name or (self.flag.short if self.flag.short == f"-{self.keyword}" else _dashed(self.keyword))


@dataclass(frozen=True)
class DataArgument:
    """One thing that a function works on."""

    keyword: str
    data: Data
    many: bool
    required: bool


@dataclass(frozen=True)
class Declaration:
    """All that a function declares."""

    verb: str
    arguments: tuple[DataArgument, ...]
    options: Mapping[str, Option]  # by keyword
    groups: Mapping[str, type]  # by parameter
    defaults: Mapping[str, object]  # of the groups
    python_only: tuple[str, ...]  # parameters that are no option: progress, callbacks
    handed_on: tuple[str, ...] = ()  # groups of the function that `**options` goes to


@cache
def describe(function: Callable[..., object]) -> Declaration:
    """What a public function declares; parameters that are neither data, option nor group are for Python alone."""
    arguments: list[DataArgument] = []
    options: dict[str, Option] = {}
    groups: dict[str, type] = {}
    defaults: dict[str, object] = {}
    python_only: list[str] = []
    handed_on: list[str] = []
    own = set(inspect.signature(function).parameters)
    for parameter in inspect.signature(function).parameters.values():
        hint, marks = _unwrapped(parameter.annotation)
        flag = next((mark for mark in marks if isinstance(mark, Flag)), None)
        data = next((mark for mark in marks if isinstance(mark, Data)), None)
        default = MISSING if parameter.default is parameter.empty else parameter.default
        if data is not None:
            many = parameter.kind is parameter.VAR_POSITIONAL
            needed = default is MISSING and not data.metavar.startswith("[")
            arguments.append(DataArgument(parameter.name, data, many, needed))
        elif flag is not None:
            options[parameter.name] = Option(parameter.name, flag, _kind(hint), default)
        elif (group := _group(hint)) is not None:
            groups[parameter.name], defaults[parameter.name] = group, default
            left_out = next((mark.names for mark in marks if isinstance(mark, Without)), frozenset())
            # a parameter of the function wins over a field of the same name: the grid of `sweep` over one temperature
            hidden = left_out | (own - {parameter.name})
            for option in _fields(parameter.name, group):
                if option.keyword not in hidden:  # a group that may be None has no defaults of its own
                    options[option.keyword] = replace(option, default=None) if default is None else option
        elif parameter.kind is parameter.VAR_KEYWORD:
            for mark in (mark for mark in marks if isinstance(mark, OptionsOf)):
                other = describe(mark.function)
                handed_on += other.groups
                heading = f"Options of {other.verb}"
                options |= {
                    name: replace(option, heading=option.heading or heading)
                    for name, option in other.options.items()
                    if name not in (*mark.without, *options)
                }
        else:
            python_only.append(parameter.name)
    name = getattr(function, "__name__", "")
    return Declaration(name, tuple(arguments), options, groups, defaults, tuple(python_only), tuple(handed_on))


def _fields(parameter: str, group: type) -> Iterator[Option]:
    hints = get_type_hints(group, include_extras=True)
    # the heading of its options in --help: the docstring's first line, up to the first stop
    heading = (group.__doc__ or "").partition("\n")[0].partition(":")[0]
    for group_field in fields(group):
        hint, (flag, *_) = _unwrapped(hints[group_field.name])
        default = group_field.default if group_field.default_factory is MISSING else group_field.default_factory()
        yield Option(group_field.name, flag, _kind(hint), default, parameter, heading.partition(",")[0].rstrip("."))


def _group(hint: object) -> type | None:
    """The group that a parameter takes, or None where it takes none; a group may be left out as None."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((part for part in parts if isinstance(part, type) and is_dataclass(part)), None)


def _unwrapped(annotation: object) -> tuple[Any, tuple[Any, ...]]:
    """The type in `Annotated[type, marks...]`, and the marks."""
    if get_origin(annotation) is Annotated:
        hint, *marks = get_args(annotation)
        return hint, tuple(marks)
    return annotation, ()


def _kind(hint: object) -> str:
    parts = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    parts -= {type(None)}
    plain = {part for part in parts if isinstance(part, type)}
    if any(get_origin(part) is Mapping for part in parts):
        return "pairs"
    if Sequence[float] in parts:
        return "numbers"
    if Sequence[str] in parts:
        return "texts"
    for kind, types_ in KINDS.items():
        if plain == types_ and not any(isinstance(part, ForwardRef) for part in parts):
            return kind
    raise TypeError(f"an option of type {hint} is not known to offleash.options")


KINDS: Mapping[str, set[type]] = {
    "switch": {bool},
    "whole": {int},
    "number": {float},
    "text": {str},
    "path": {str, Path},
    "budget": {int, str},
}
PAPER = "paper"  # the budget of arXiv:2507.14843


# The check of what is given, the same for Python and the command line.


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function public: its options are checked before it runs.

    Fields of a group may be given by themselves: `draw(..., temperature=0.6)` is
    `draw(..., decoding=Decoding(temperature=0.6))`, and `decoding="paper"` is `decoding=Decoding("paper")`.
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **checked_options(function, kwargs, len(args)))  # type: ignore[arg-type]

    return checked


def checked_options(
    function: Callable[..., object], given: Mapping[str, object], positional: int = 0
) -> dict[str, object]:
    """The keyword arguments of a call, values checked and fields of groups gathered; refused before any work."""
    declared = describe(function)
    arguments = {argument.keyword for argument in declared.arguments}
    out: dict[str, object] = {}
    gathered: dict[str, dict[str, object]] = {}
    for name, value in given.items():
        option = declared.options.get(name)
        if name in declared.groups and not (option and option.group == name and isinstance(value, str)):
            out[name] = _checked_group(declared, name, value)
        elif option is not None and option.group in declared.groups:
            gathered.setdefault(option.group, {})[name] = checked_value(option, value)
        elif option is not None:
            out[name] = checked_value(option, value)
        elif name in (*declared.python_only, *declared.handed_on, *arguments):
            out[name] = value
        else:
            raise no_option(declared, declared.verb, name, [*declared.options, *declared.groups], str)
    for group, values in gathered.items():
        whole: Any = out.get(group)
        out[group] = declared.groups[group](**values) if whole is None else replace(whole, **values)
    for argument in declared.arguments[positional:]:
        if argument.required and argument.keyword not in out:
            raise needs(declared.verb, argument)
    for name, option in declared.options.items():
        if option.default is MISSING and name not in out:
            raise needs(declared.verb, option)
    return out


def needs(verb_name: str, lacking: "DataArgument | Option") -> OffleashError:
    """Something that must be given was not."""
    if isinstance(lacking, Option):
        return OffleashError(f"{verb_name} needs {lacking.name}. {lacking.flag.help}")
    return OffleashError(f"{verb_name} needs {lacking.data.metavar}. {lacking.data.help}")


def _checked_group(declared: Declaration, name: str, value: object) -> object:
    kind = declared.groups[name]
    if value is None:
        return declared.defaults[name]
    if not isinstance(value, kind):
        raise OffleashError(
            f"{name} of {declared.verb} takes a {kind.__name__}. Found {value!r:.60}: give {name}={kind.__name__}(...)."
        )
    changed = {}
    for option in _fields(name, kind):
        now = getattr(value, option.keyword)
        if option.keyword in declared.options and declared.options[option.keyword].group == name:
            changed[option.keyword] = checked_value(option, now)
        elif now != option.default:
            raise OffleashError(f"{option.name} is no option of {declared.verb}. Leave it out of {kind.__name__}.")
    group: Any = value
    return replace(group, **changed)


def no_option(
    declared: Declaration, verb_name: str, typed: str, known: Sequence[str], spelt: Callable[[str], str]
) -> OffleashError:
    """An option that there is not: its new name where it has one, else the nearest; `spelt` as the user types them."""
    old = typed.lstrip("-").replace("-", "_")
    new = next((new for new in RENAMED.get(old, ()) if new in declared.options and old not in declared.options), None)
    if new is not None:
        return OffleashError(f"{verb_name} has no option {typed!r} any more. It is {spelt(new)!r} now.")
    called = {spelt(name): name for name in known}
    for name, option in declared.options.items():  # a flag typed as the keyword, or a keyword as the flag
        called |= {_dashed(name): name, option.name: name, option.name.lstrip("-"): name}
    near = [name for name in called if len(old) > 2 and name.startswith(typed)] or get_close_matches(typed, called, n=1)
    names = sorted(dict.fromkeys(map(spelt, known)))
    some = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    hint = f" Did you mean {spelt(called[near[0]])!r}?" if near else f" Its options: {some}."
    return OffleashError(f"{verb_name} has no option {typed!r}.{hint}")


# Until 0.2: what options were called before, and what they are called now; the first that the function has.
RENAMED: Mapping[str, tuple[str, ...]] = {
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


def checked_value(option: Option, value: object) -> object:
    """A value as its function takes it; refused where it is none of the option's."""
    if value is None and (option.default is None or option.kind in ("pairs", "texts")):
        return option.default
    if option.kind == "path" and isinstance(value, str | Path):
        return Path(value)
    if option.kind == "pairs" and isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    if option.kind == "texts" and isinstance(value, str | Collection):
        return tuple(_choice(option, text) for text in ((value,) if isinstance(value, str) else value))
    if option.kind == "numbers" and isinstance(value, Real | Iterable) and not isinstance(value, bool | str):
        several = [checked_value(replace(option, kind="number"), part) for part in _listed(value)]
        if not several:
            raise refused(option, "nothing")
        return tuple(dict.fromkeys(several))
    if option.kind == "budget" and value == PAPER:
        return value
    if option.kind in ("whole", "budget") and isinstance(value, Integral) and not isinstance(value, bool):
        return _in_range(option, int(value), value)
    if option.kind == "number" and isinstance(value, Real) and not isinstance(value, bool):
        try:
            return _in_range(option, float(value), value)
        except OverflowError:  # a whole number beyond all floats
            raise refused(option, value) from None
    if option.kind == "text" and isinstance(value, str):
        return _choice(option, value)
    if option.kind == "switch" and isinstance(value, bool):
        return value
    if isinstance(value, str):
        return parsed(option, value)
    raise refused(option, value)


def _listed(value: Any) -> Iterable[object]:
    return (value,) if isinstance(value, Real) else value


def parsed(option: Option, typed: str | Sequence[str]) -> object:
    """A value from what was typed; several texts where the flag may be given more than once."""
    texts = [typed] if isinstance(typed, str) else typed
    text = texts[-1]
    if option.kind in ("whole", "budget") and text != PAPER:
        digits = text.replace(",", "") if GROUPED.fullmatch(text) else text
        return checked_value(option, _number(option, text, digits, int))
    if option.kind == "number":
        return checked_value(option, _number(option, text, text, float))
    if option.kind == "numbers":
        return checked_value(option, [_number(option, word, word, float, text) for word in text.split(",")])
    if option.kind == "pairs":
        return _pairs(option, texts)
    if option.kind == "switch":
        raise refused(option, text)
    return checked_value(option, tuple(texts) if option.kind == "texts" else text)


def _number(option: Option, typed: str, digits: str, kind: Callable[[str], float], whole: str | None = None) -> float:
    try:
        return kind(digits)
    except ValueError:
        raise refused(option, typed, whole) from None


def _pairs(option: Option, texts: Sequence[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise refused(option, text)
        if name in out:
            raise OffleashError(f"{option.name} {name} is given twice: {out[name]!r} and {value!r}. Leave one out.")
        out[name] = value
    return out


def _choice(option: Option, text: str) -> str:
    if not isinstance(text, str) or (option.flag.choices and text not in option.flag.choices):
        raise refused(option, text)
    return text


def _in_range(option: Option, value: Any, given: object) -> Any:
    flag = option.flag
    good = isinstance(value, int) or math.isfinite(value)
    good = good and (flag.least is None or value >= flag.least) and (flag.most is None or value <= flag.most)
    good = good and (flag.above is None or value > flag.above) and (flag.below is None or value < flag.below)
    if not good:
        raise refused(option, given)
    return value


def refused(option: Option, value: object, whole: object = None) -> OffleashError:
    """A value that an option does not take: what it takes, and what was found; of a list, which part of the whole."""
    near = get_close_matches(str(value), option.flag.choices, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    said: object = value
    if isinstance(value, float) and option.kind == "number":
        said = f"{value:g}"  # 1.0 of Python is the 1 that was typed
    elif option.kind in ("text", "texts") or value == "":
        said = repr(value)
    typed = f"{str(value)!r} in {option.name} {whole}" if whole is not None else f"{option.name} {said}"
    return OffleashError(f"{option.name} takes {takes(option)}. Found {typed[:100]}{hint}")


def takes(option: Option) -> str:
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
        return "a text"
    noun = {"number": "a number", "numbers": "numbers, separated by commas,"}.get(option.kind, "a whole number")
    low = "" if flag.above is None else f" above {flag.above:,g}"
    low = low or ("" if flag.least is None else f" from {flag.least:,g}")
    high = (
        "" if flag.most is None else f" to {flag.most:,.0f}" if flag.above is None else f" and at most {flag.most:,g}"
    )
    high = high or ("" if flag.below is None else f" {'and' if flag.least is None else 'to'} below {flag.below:,g}")
    return f"{noun}{low}{high}" + (" or 'paper'" if option.kind == "budget" else "")


GROUPED = re.compile(r"\d{1,3}(,\d{3})+")  # 8,192
EXAMPLES = {"--map": "--map text=response", "--set": "--set dtype=bfloat16"}


def _dashed(keyword: str) -> str:
    return f"--{keyword.rstrip('_').replace('_', '-')}"
