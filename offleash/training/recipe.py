"""Recipes: everything a training run depends on, read from YAML with dotted overrides and written back in full."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType, NoneType
from typing import Annotated, TypeVar, cast, get_args, get_origin, get_type_hints

from offleash.errors import OffleashError, unknown
from offleash.training.methods.registry import METHODS, method

# Typed values: a frozen dataclass from a mapping, every key known, every value of its type and range.


T = TypeVar("T")


@dataclass(frozen=True)
class Bound:
    """The least that a number may be; `beyond` it where the bound itself is too small."""

    least: float
    beyond: bool = False

    def holds(self, value: float) -> bool:
        return value > self.least if self.beyond else value >= self.least

    def __str__(self) -> str:
        return f"above {self.least:g}" if self.beyond else f"of {self.least:g} or more"


Count = Annotated[int, Bound(1)]
Several = Annotated[int, Bound(2)]
Whole = Annotated[int, Bound(0)]
Positive = Annotated[float, Bound(0, beyond=True)]
Amount = Annotated[float, Bound(0)]


def filled(kind: type[T], found: object, place: str = "") -> T:
    """The dataclass that a mapping describes; text stands for the `name` of a section that has one."""
    hints, all_fields = get_type_hints(kind, include_extras=True), _fields(kind)
    if isinstance(found, str) and "name" in hints:
        found = {"name": found}
    if found is None:  # a section whose lines are all commented out
        found = {}
    if not isinstance(found, Mapping):
        raise _unfit(place, f"a section with {', '.join(hints)}", found)
    values: dict[str, object] = {}
    for one in all_fields:
        name = _dotted(place, one.name)
        if one.name in found:
            values[one.name] = value_of(hints[one.name], found[one.name], name)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise _missing(name, one)
    return cast(Callable[..., T], kind)(**values)


def value_of(hint: object, found: object, place: str) -> object:
    """A value of the type that a field has."""
    base, bounds = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    choices = get_args(base)
    if NoneType in choices:
        return None if found is None else value_of(choices[0], found, place)
    if isinstance(base, type) and is_dataclass(base):
        return filled(base, found, place)
    wanted, read = READERS[get_origin(base) or base]
    value = read(found)
    for bound in bounds:
        wanted = f"{wanted} {bound}"
        value = value if isinstance(value, int | float) and bound.holds(value) else None
    if value is None:
        raise _unfit(place, wanted, found)
    return value


def number_in(found: object) -> float | None:
    """A finite number, also one that YAML takes for text (1e-4); None where it is something else."""
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        value = float(found)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def check_keys(found: Mapping[str, object], kind: type, place: str = "", known: Iterable[str] | None = None) -> None:
    """Refuse a key that no dataclass knows, with its dotted name and the nearest one that exists."""
    known = names_of(kind) if known is None else known
    sections = {name: _section(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    for key, inner in found.items():
        name = _dotted(place, str(key))
        if key not in sections:
            elsewhere = [other for other in known if other.endswith(f".{key}")]
            if len(elsewhere) == 1:  # the right word in the wrong section
                raise OffleashError(f"There is no key {name!r} in a recipe. Did you mean {elsewhere[0]!r}?")
            raise unknown("key of a recipe", name, [_dotted(place, one) for one in sections])
        section = sections[key]
        if section is not None and isinstance(inner, Mapping):
            check_keys(inner, section, name, known)


def names_of(kind: type, place: str = "") -> list[str]:
    """The dotted names of all values that a dataclass and those inside it hold."""
    names = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        section = _section(hint)
        names += [_dotted(place, name)] if section is None else names_of(section, _dotted(place, name))
    return names


def _section(hint: object) -> type | None:
    """The dataclass that a field holds, if it holds one."""
    inside = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
    return inside[0] if inside else None


def _fields(kind: type) -> tuple["Field[object]", ...]:
    return fields(kind) if is_dataclass(kind) else ()


def _whole(found: object) -> int | None:
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    value = number_in(found)
    return int(value) if value is not None and value.is_integer() else None


def _text(found: object) -> str | None:
    return found if isinstance(found, str) and found.strip() else None


def _flag(found: object) -> bool | None:
    return found if isinstance(found, bool) else None


def _mapping(found: object) -> Mapping[str, object] | None:
    return found if isinstance(found, Mapping) else None


# type of a field: what is wanted, in words, and the value if it is that
READERS: dict[object, tuple[str, Callable[[object], object | None]]] = {
    str: ("text", _text),
    bool: ("true or false", _flag),
    int: ("a whole number", _whole),
    float: ("a number", number_in),
    Mapping: ("a section", _mapping),
}


def _dotted(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _missing(name: str, one: "Field[object]") -> OffleashError:
    section, _, key = name.rpartition(".")
    under = f" under {section}" if section else ""
    return OffleashError(
        f"The recipe has no {name}. Add a line{under}, for example `{key}: {one.metadata['example']}`."
    )


def _unfit(place: str, wanted: str, found: object) -> OffleashError:
    shown = "nothing" if found is None else repr(found)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    quote = (
        ' Text that looks like something else stands in quotes ("24").'
        if wanted == "text" and isinstance(found, int | float)
        else ""
    )
    return OffleashError(f"{place or 'A recipe'} is {wanted}; found {shown}.{quote}")


# The recipe, its sections, and what may change when a training run is resumed.


Option = float | int | bool
FREE = ("steps", "checkpoint_every", "tensorboard", "validation")  # may change when a training goes on
PROBLEMS_EXAMPLE = {"example": "countdown:train"}


@dataclass(frozen=True)
class ProblemSource:
    """A set of problems, by the name, size and seed that `load_problems` takes."""

    name: str = field(metadata=PROBLEMS_EXAMPLE)
    size: Count | None = None
    seed: Whole = 0


@dataclass(frozen=True)
class Sampling:
    """What is drawn in a step."""

    problems: Count = 64
    group: Several = 16  # samples a problem
    temperature: Positive = 1.0
    max_tokens: Count = 256


@dataclass(frozen=True)
class Optimizer:
    """How the policy moves on the samples of a step."""

    rate: Positive = 1e-6
    warmup: Whole = 0  # steps over which the rate rises to its value
    decay: Amount = 0.0  # of the weights
    clip: Positive = 1.0  # the norm of the gradient
    updates: Count = 1  # passes over the same samples
    tokens: Count = 32768  # in one forward pass, at most


@dataclass(frozen=True)
class Validation:
    """What is drawn between steps to see how far the policy is; `every` 0: never."""

    problems: ProblemSource | None = None
    every: Whole = 0
    samples: Count = 16  # a problem


@dataclass(frozen=True)
class Recipe:
    """A training, whole. In YAML the options of a method stand under it: `method: {name: grpo, kl: 0.01}`."""

    model: str = field(metadata={"example": "hf:./base"})
    problems: ProblemSource = field(metadata=PROBLEMS_EXAMPLE)
    method: str = "grpo"
    options: Mapping[str, Option] = field(default_factory=dict)
    steps: Count = 100
    seed: Whole = 0
    sampling: Sampling = Sampling()
    optimizer: Optimizer = Optimizer()
    validation: Validation = Validation()
    traces: str | None = None  # a JSONL of {problem, text}: correct traces from outside
    refill: Count = 4  # times the groups of a step that are drawn at most when groups are dropped
    checkpoint_every: Count = 20
    tensorboard: bool = True


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file, with values set by dotted name (`optimizer.rate=1e-4`)."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise OffleashError(f"There is no recipe {path}. Give the path of a YAML file.") from None
    except OSError as error:
        raise OffleashError(f"{path} cannot be read ({error.strerror}). Give the path of a YAML file.") from None
    found = parsed(text, str(path))
    if found is not None and not isinstance(found, dict):
        shown = repr(found)[:80]
        raise OffleashError(f"{path} holds {shown}; a recipe is lines of `name: value`, such as `model: hf:./base`.")
    return recipe_of(set_by_name(found or {}, overrides))


def recipe_of(document: Mapping[str, object]) -> Recipe:
    """The recipe that a document describes, its method and options checked too."""
    if "options" in document:
        raise OffleashError(
            "Options of a method stand under it, as in `method: {name: grpo, kl: 0.01}`; found `options`."
        )
    plain = {key: value for key, value in document.items() if key != "method"}
    check_keys(plain, Recipe)
    name, options = _method(document.get("method"))
    method(name, options)
    return filled(Recipe, {**plain, "method": name, "options": options})


def document(recipe: Recipe) -> dict[str, object]:
    """The recipe as plain values, as `recipe_of` reads them."""
    plain = {one.name: getattr(recipe, one.name) for one in fields(recipe) if one.name != "options"}
    for section in ("problems", "sampling", "optimizer", "validation"):
        plain[section] = asdict(plain[section])
    if recipe.options:
        plain["method"] = {"name": recipe.method, **recipe.options}
    return plain


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe with every default filled in, those of its method too, as YAML for `read_recipe`."""
    plain = document(recipe)
    plain["method"] = {"name": recipe.method, **_all_options(recipe)}
    temporary = path.with_name(f".{path.name}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(written(plain), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OffleashError(f"{path} could not be written ({error.strerror}).") from None


def differences(old: Recipe, new: Recipe) -> list[str]:
    """Dotted names of what differs and makes another training; steps, checkpoints and validation may change."""
    before, after = _flat(old), _flat(new)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if "method" in names:  # its options are others too, which goes without saying
        names = [name for name in names if not name.startswith("method.")]
    return names


def _method(found: object) -> tuple[str, dict[str, object]]:
    """The name of a method and its options, written as a name alone or as a section."""
    if found is None:
        return Recipe.method, {}
    section = dict(found) if isinstance(found, Mapping) else {"name": found}
    name = str(value_of(str, section.pop("name", Recipe.method), "method"))
    options: dict[str, object] = {}
    for option, value in section.items():
        number = number_in(value) if isinstance(value, str) else None  # YAML takes 1e-4 for text
        options[str(option)] = value if number is None else number
        if value != value:
            raise OffleashError(f"{option} of the method {name} is a number; found {value!r}.")
    return name, options


def _all_options(recipe: Recipe) -> dict[str, Option]:
    """The options of the recipe's method, and the defaults of those that the recipe leaves out."""
    method(recipe.method, recipe.options)
    known = signature(METHODS[recipe.method]).parameters.values()
    defaults = {one.name: one.default for one in known if isinstance(one.default, bool | int | float)}
    return {**defaults, **recipe.options}


def _flat(recipe: Recipe) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in document(recipe).items():
        if name in FREE:
            continue
        if name == "method":
            flat |= {name: recipe.method}
            flat |= {f"{name}.{option}": inner for option, inner in _all_options(recipe).items()}
        elif isinstance(value, Mapping):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat


# YAML: errors that say where, and values set by dotted name (`optimizer.rate=1e-4`).


def parsed(text: bytes | str, where: str) -> object:
    """The value that YAML gives; errors say where it went wrong."""
    yaml = _yaml()
    try:
        twice = _twice(yaml.compose(text, Loader=yaml.SafeLoader))
        if twice is None:
            found: object = yaml.safe_load(text)
            return found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise OffleashError(f"{where} is not YAML: {line}{error.problem or error.context}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OffleashError(f"{where} is not YAML: {first}.") from None
    raise OffleashError(f"{where} gives {twice[0]!r} twice, the second time in line {twice[1]}; keep one of them.")


def set_by_name(document: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """The document with the values of `NAME=VALUE` in it; of two for one name the last one holds."""
    changed = dict(document)
    split = [_split(override) for override in overrides]
    for parts, value in sorted(split, key=lambda one: len(one[0])):  # a section before what stands in it
        _set(changed, parts, value)
    return changed


def written(document: Mapping[str, object]) -> str:
    """The document as YAML, in its own order."""
    text: str = _yaml().safe_dump(dict(document), sort_keys=False, allow_unicode=True)
    return text


def _twice(node: object) -> tuple[str, int] | None:
    """A key that a mapping holds twice and its line: YAML would drop the first one without a word."""
    yaml, waiting, looked = _yaml(), [node], set()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, yaml.CollectionNode) or id(one) in looked:
            continue
        looked.add(id(one))
        if not isinstance(one, yaml.MappingNode):
            waiting.extend(one.value)
            continue
        seen: set[str] = set()
        for key, value in one.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    return str(key.value), key.start_mark.line + 1
                seen.add(key.value)
            waiting.append(value)
    return None


def _split(override: str) -> tuple[list[str], object]:
    """The parts of the name and the value of `optimizer.rate=1e-4`."""
    name, equals, text = override.partition("=")
    parts = [part.strip() for part in name.split(".")]
    if not equals or not all(parts):
        raise OffleashError(f"{override!r} sets nothing; write NAME=VALUE, for example optimizer.rate=1e-4.")
    return parts, parsed(text, f"The value of {override!r}")


def _set(document: dict[str, object], parts: Sequence[str], value: object) -> None:
    *sections, last = parts
    for section in sections:
        inner = document.get(section)
        if isinstance(inner, str):
            inner = {"name": inner}
        if inner is not None and not isinstance(inner, Mapping):
            raise OffleashError(f"{section} is {inner!r} in the recipe: {'.'.join(parts)} cannot be set in it.")
        document[section] = changed = dict(inner or {})
        document = changed
    document[last] = value


def _yaml() -> ModuleType:
    try:
        import yaml
    except ImportError:
        raise OffleashError("A recipe needs PyYAML; pip install 'offleash[local]'.") from None
    found: ModuleType = yaml
    return found
