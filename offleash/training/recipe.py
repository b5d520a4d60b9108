"""Recipes: all that a training depends on, read from YAML with dotted overrides and written back in full."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from inspect import signature
from pathlib import Path

from offleash.errors import OffleashError
from offleash.training.methods.registry import METHODS, method
from offleash.training.recipe_values import (
    Amount,
    Count,
    Positive,
    Several,
    Whole,
    check_keys,
    filled,
    number_in,
    value_of,
)
from offleash.training.recipe_yaml import parsed, set_by_name, written

Option = float | int | bool
FREE = ("steps", "checkpoint_every", "tensorboard", "validation")  # may change when a training goes on
PROBLEMS_EXAMPLE = {"example": "countdown:train"}


@dataclass(frozen=True)
class Asked:
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

    problems: Asked | None = None
    every: Whole = 0
    samples: Count = 16  # a problem


@dataclass(frozen=True)
class Recipe:
    """A training, whole. In YAML the options of a method stand under it: `method: {name: grpo, kl: 0.01}`."""

    model: str = field(metadata={"example": "hf:./base"})
    problems: Asked = field(metadata=PROBLEMS_EXAMPLE)
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
