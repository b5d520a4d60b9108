"""The values of a recipe: a frozen dataclass from a mapping, every key known, every value of its type and range."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import NoneType
from typing import Annotated, TypeVar, cast, get_args, get_origin, get_type_hints

from offleash.errors import OffleashError, unknown

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
