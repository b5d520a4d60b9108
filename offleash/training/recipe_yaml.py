"""YAML of a recipe: values with errors that say where, and values set by dotted name (`optimizer.rate=1e-4`)."""

from collections.abc import Mapping, Sequence
from types import ModuleType

from offleash.errors import OffleashError


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
