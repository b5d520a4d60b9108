"""Recipes: everything a training run depends on, read from YAML with dotted overrides and written back in full.

A recipe is a frozen pydantic dataclass with one dataclass per section. pydantic checks keys, types and ranges; its
errors are reworded here to give the dotted key, the value found and what to write instead.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, get_args, get_type_hints

import yaml
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails, PydanticCustomError

from offleash.data.identity import SettingDifference, differences
from offleash.errors import OffleashError, unknown
from offleash.files.yaml_text import parse_yaml
from offleash.training.methods.registry import method, method_function

# Types of values. Each says in words what it takes: `expected_as` puts them in place of pydantic's message.


def expected_as(words: str) -> WrapValidator:
    """Replace pydantic's message about a value by what is wanted: "a number above 0"."""

    def check(value: object, inner: ValidatorFunctionWrapHandler) -> object:
        try:
            return inner(value)
        except ValidationError:
            raise PydanticCustomError("unfit", "{words}", {"words": words}) from None

    return WrapValidator(check)


def number_from_yaml(value: object) -> object:
    """A number, even if YAML reads it as text: PyYAML follows YAML 1.1, where 1e-4 has no dot and is text."""
    if isinstance(value, bool):  # an int in Python, so that pydantic would read `steps: true` as 1
        raise ValueError("true and false are not numbers")
    return float(value) if isinstance(value, str) else value


YAML_NUMBER = BeforeValidator(number_from_yaml)
Text = Annotated[str, Field(pattern=r"\S"), expected_as("text")]
Switch = Annotated[bool, Field(strict=True), expected_as("true or false")]
Count = Annotated[int, Field(ge=1), YAML_NUMBER, expected_as("a whole number, 1 or more")]
GroupSize = Annotated[int, Field(ge=2), YAML_NUMBER, expected_as("a whole number, 2 or more")]
CountOrZero = Annotated[int, Field(ge=0), YAML_NUMBER, expected_as("a whole number, 0 or more")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), YAML_NUMBER, expected_as("a number above 0")]
Number = Annotated[float, Field(allow_inf_nan=False), YAML_NUMBER, expected_as("a number")]
PositiveOrZero = Annotated[float, Field(ge=0, allow_inf_nan=False), YAML_NUMBER, expected_as("a number, 0 or more")]
Option = float | int | bool


def kept_checkpoints(value: object) -> object:
    """The value of `keep`, checked: `all`, `last N`, or steps, each once and in order."""
    if isinstance(value, str) and (value == "all" or re.fullmatch(r"last [1-9]\d*", value)):
        return value
    if isinstance(value, list | tuple) and value and all(type(step) is int and step >= 0 for step in value):
        return sorted(set(value))
    raise ValueError("not a rule for checkpoints")


Keep = Annotated[str | list[int], BeforeValidator(kept_checkpoints), expected_as("all, last N, or a list of steps")]

# A section whose lines are all commented out is None in YAML: all its defaults hold.
SECTION = BeforeValidator(lambda value: {} if value is None else value)
# `problems: countdown:train` is short for `problems: {name: countdown:train}`.
NAME_TO_SECTION = BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value)


# The recipe, its sections, and what may change when a training run is resumed. Names and order of the fields are those
# of recipe.yaml in a training folder: rename one, and existing training runs cannot be resumed.

FORBID_EXTRA_KEYS = ConfigDict(extra="forbid")
CHANGEABLE_ON_RESUME = ("steps", "checkpoint_every", "keep", "tensorboard", "validation")  # may change on resume
EXAMPLES = {"model": "hf:./base", "problems": "countdown:train", "name": "countdown:train"}  # of keys without default


@dataclass(frozen=True, config=FORBID_EXTRA_KEYS)
class ProblemSource:
    """A set of problems, by the name, size and seed that `load_problems` takes."""

    name: Text
    size: Count | None = None  # None: all
    seed: CountOrZero = 0


@dataclass(frozen=True, config=FORBID_EXTRA_KEYS)
class Sampling:
    """What is drawn in a step."""

    problems: Count = 64
    group: GroupSize = 16  # samples per problem
    temperature: Positive = 1.0
    max_tokens: Count = 256


@dataclass(frozen=True, config=FORBID_EXTRA_KEYS)
class Optimizer:
    """How the policy is updated on the samples of a step."""

    rate: Positive = 1e-6
    warmup: CountOrZero = 0  # steps over which the rate rises linearly to its value
    decay: PositiveOrZero = 0.0  # weight decay of AdamW
    clip: Positive = 1.0  # norm to which the gradient is clipped
    updates: Count = 1  # passes over the same samples; from the second on they are off policy
    tokens: Count = 32768  # in one forward pass, at most: bounds memory, not the result


@dataclass(frozen=True, config=FORBID_EXTRA_KEYS)
class Validation:
    """What is drawn between steps to measure the policy; `every` 0: never."""

    problems: Annotated[ProblemSource, NAME_TO_SECTION] | None = None
    every: CountOrZero = 0  # steps
    samples: Count = 16  # per problem


@dataclass(frozen=True, config=FORBID_EXTRA_KEYS)
class Recipe:
    """A training run. In YAML the options of a method are written under it: `method: {name: grpo, kl: 0.01}`."""

    model: Text
    problems: Annotated[ProblemSource, NAME_TO_SECTION, SECTION]
    method: Text = "grpo"
    options: Mapping[str, Option] = field(default_factory=dict)
    steps: Count = 100
    seed: CountOrZero = 0
    sampling: Annotated[Sampling, SECTION] = Sampling()
    optimizer: Annotated[Optimizer, SECTION] = Optimizer()
    validation: Annotated[Validation, SECTION] = Validation()
    traces: Text | None = None  # a JSONL file of {problem, text}: correct external traces
    refill: Count = 4  # where groups are dropped, at most this many times the groups of a step are drawn
    checkpoint_every: Count = 20  # steps
    tensorboard: Switch = True
    verifier: Text | None = None  # of all problems: a name, or the user's own FILE.py:NAME; None: each problem's own
    threshold: Number = 1.0  # a score of that function from which on a sample is correct
    keep: Keep | None = None  # checkpoints that stay: all, last N, or a list of steps; None: the last two

    @property
    def keep_last(self) -> int | None:
        """How many checkpoints stay, whatever their steps; None: all."""
        return None if self.keep == "all" else int(self.keep.split()[1]) if isinstance(self.keep, str) else KEEP_LAST

    @property
    def keep_steps(self) -> tuple[int, ...]:
        """Steps whose checkpoints are written and stay."""
        return tuple(self.keep) if isinstance(self.keep, list) else ()


RECIPE = TypeAdapter(Recipe)
KEEP_LAST = 2  # checkpoints that stay where a recipe does not say: one may be damaged


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file, with values set by dotted name (`optimizer.rate=1e-4`)."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise OffleashError(f"There is no recipe {path}. Give the path of a YAML file.") from None
    except OSError as error:
        raise OffleashError(f"{path} cannot be read ({error.strerror}). Give the path of a YAML file.") from None
    content = parse_yaml(text, str(path))
    if content is not None and not isinstance(content, dict):
        raise OffleashError(
            f"{path} contains {repr(content)[:80]}. Write lines of `name: value`, such as `model: hf:./base`."
        )
    return recipe_of(set_by_name(content or {}, overrides))


def recipe_of(document: Mapping[str, object]) -> Recipe:
    """The recipe that a document describes, its method and options checked too.

    >>> recipe_of({"model": "hf:base", "problems": "countdown:train", "method": {"name": "grpo", "kl": 0.1}}).options
    {'kl': 0.1}
    """
    if "options" in document:
        raise OffleashError(
            "A recipe has no key `options`. Write the options of a method under it: `method: {name: grpo, kl: 0.01}`."
        )
    name, options = _method(document.get("method"))
    if isinstance(name, str):  # anything else is refused below, by its type
        method(name, options)
    try:
        recipe = RECIPE.validate_python({**document, "method": name, "options": options})
    except ValidationError as error:
        raise _validation_error(error.errors()) from None
    late_steps = [step for step in recipe.keep_steps if step > recipe.steps]
    if late_steps:
        raise OffleashError(
            f"keep lists step {late_steps[0]}, but training has only {recipe.steps} steps. Raise steps, or remove it."
        )
    return recipe


def document(recipe: Recipe) -> dict[str, object]:
    """The recipe as plain values, as `recipe_of` reads them: options are written with the method they belong to."""
    plain = asdict(recipe)
    options = plain.pop("options")
    if recipe.keep is None:  # recipes of older versions keep their stored form
        del plain["keep"]
    if recipe.verifier is None:  # as in training runs that were started before recipes could name one
        del plain["verifier"], plain["threshold"]
    if options:
        plain["method"] = {"name": recipe.method, **options}
    return plain


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe with every default filled in, those of its method too, as YAML for `read_recipe`."""
    plain = document(recipe)
    plain["method"] = {"name": recipe.method, **_all_options(recipe)}
    temporary = path.with_name(f".{path.name}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the order of the fields, not of the alphabet: `model` and `problems` first.
        temporary.write_text(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OffleashError(f"{path} could not be written ({error.strerror}).") from None


def recipe_differences(stored: Recipe, requested: Recipe) -> list[SettingDifference]:
    """Differences that prevent a resume, by dotted name; steps, checkpoints and validation may change."""
    differing = differences(_flat_values(stored), _flat_values(requested))
    if any(difference.name == "method" for difference in differing):
        # another method has other options: listing them would not help
        differing = [difference for difference in differing if not difference.name.startswith("method.")]
    return differing


def _method(section: object) -> tuple[object, dict[str, object]]:
    """The name of a method, not yet checked, and its options, written as a name alone or as a section."""
    if section is None:
        return Recipe.method, {}
    values = dict(section) if isinstance(section, Mapping) else {"name": section}
    name = values.pop("name", Recipe.method)
    options: dict[str, object] = {}
    for option, value in values.items():
        options[str(option)] = value
        if isinstance(value, str):
            with suppress(ValueError):  # `method` refuses other text, with the name of the option
                options[str(option)] = number_from_yaml(value)
        if options[str(option)] != options[str(option)]:  # nan is a float and would pass as an option's value
            raise OffleashError(f"{option} of the method {name} must be a number; found {value!r}.")
    return name, options


def _all_options(recipe: Recipe) -> dict[str, Option]:
    """The options of the recipe's method, and the defaults of those that the recipe leaves out."""
    method(recipe.method, recipe.options)
    parameters = signature(method_function(recipe.method)).parameters.values()
    defaults = {known.name: known.default for known in parameters if isinstance(known.default, bool | int | float)}
    return {**defaults, **recipe.options}


def _flat_values(recipe: Recipe) -> dict[str, object]:
    """What must agree on resume, by dotted name; an explicit default is no difference."""
    flat: dict[str, object] = {}
    for name, value in document(recipe).items():
        if name in CHANGEABLE_ON_RESUME:
            continue
        if name == "method":
            flat |= {name: recipe.method}
            flat |= {f"{name}.{option}": inner for option, inner in _all_options(recipe).items()}
        elif isinstance(value, Mapping):
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat


# Pydantic's errors, reworded.


def _validation_error(errors: Sequence[ErrorDetails]) -> OffleashError:
    """One error of all that pydantic found: a misspelt key first, because it explains a missing one."""
    unknown_key_errors = ("unexpected_keyword_argument", "invalid_key")
    error = min(errors, key=lambda error: error["type"] not in unknown_key_errors)
    *sections, key = (str(part) for part in error["loc"])
    section, name = ".".join(sections), ".".join((*sections, key))
    if error["type"] in unknown_key_errors:
        return _unknown_key(section, key)
    if error["type"] == "missing":
        section_text = f" under {section}" if section else ""
        return OffleashError(
            f"The recipe has no {name}. Add a line{section_text}, for example `{key}: {EXAMPLES[key]}`."
        )
    keys = [known.rpartition(".")[2] for known in _names(Recipe) if known.rpartition(".")[0] == name]
    expected = f"a section with {', '.join(keys)}" if error["type"] == "dataclass_type" else error["msg"]
    value = "nothing" if error["input"] is None else repr(error["input"])
    value = value if len(value) <= 200 else f"{value[:200]}..."
    is_unquoted_text = expected == "text" and isinstance(error["input"], int | float)
    quotes = " Put it in quotes if it is meant as text." if is_unquoted_text else ""
    return OffleashError(f"{name} must be {expected}; found {value}.{quotes}")


def _unknown_key(section: str, key: str) -> OffleashError:
    """A key that does not exist there: where it belongs, or the nearest key of the same section."""
    names = _names(Recipe)
    name = f"{section}.{key}" if section else key
    values = [known for known in names if not any(other.startswith(f"{known}.") for other in names)]
    matching_keys = [known for known in values if known.endswith(f".{key}")]
    if len(matching_keys) == 1:  # the right word in the wrong section
        return OffleashError(f"There is no recipe key {name!r}. Did you mean {matching_keys[0]!r}?")
    return unknown("recipe key", name, [known for known in names if known.rpartition(".")[0] == section])


def _names(kind: type, prefix: str = "") -> list[str]:
    """The dotted names of all keys of a dataclass, sections and what is in them."""
    names = []
    for name, hint in get_type_hints(kind).items():
        if name == "options":  # written under `method` in a file
            continue
        names.append(prefix + name)
        for part in (hint, *get_args(hint)):  # `ProblemSource | None` holds a section too
            if isinstance(part, type) and is_dataclass(part):
                names += _names(part, f"{prefix}{name}.")
    return names


# Values set by dotted name (`optimizer.rate=1e-4`).


def set_by_name(document: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """The document with the values of `NAME=VALUE` set; the last one wins.

    >>> set_by_name({"problems": "countdown:train"}, ["problems.size=512", "steps=9"])
    {'problems': {'name': 'countdown:train', 'size': 512}, 'steps': 9}
    """
    changed = dict(document)
    parsed_overrides = [_split(override) for override in overrides]
    # Sections before their values, or `method=grpo` after `method.kl=0.3` would drop the kl.
    for parts, value in sorted(parsed_overrides, key=lambda pair: len(pair[0])):
        _set(changed, parts, value)
    return changed


def _split(override: str) -> tuple[list[str], object]:
    """The parts of the name and the value of `optimizer.rate=1e-4`."""
    name, equals_sign, text = override.partition("=")
    parts = [part.strip() for part in name.split(".")]
    if not equals_sign or not all(parts):
        raise OffleashError(f"{override!r} is not NAME=VALUE. Write, for example, optimizer.rate=1e-4.")
    return parts, parse_yaml(text, f"The value of {override!r}")


def _set(document: dict[str, object], parts: Sequence[str], value: object) -> None:
    """Set a value in nested sections, which are copied: the caller's document stays as it is."""
    *sections, last = parts
    for section in sections:
        inner = document.get(section)
        if isinstance(inner, str):
            inner = {"name": inner}
        if inner is not None and not isinstance(inner, Mapping):
            raise OffleashError(f"{section} is {inner!r} in the recipe, so {'.'.join(parts)} cannot be set.")
        document[section] = changed = dict(inner or {})
        document = changed
    document[last] = value
