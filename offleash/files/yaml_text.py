"""YAML as users write it: recipes and studies. Errors name the line, and a key that is there twice is refused."""

import yaml

from offleash.errors import OffleashError


def parse_yaml(text: bytes | str, source: str) -> object:
    """The value of a YAML text; errors name the line of the `source`."""
    try:
        repeated = _repeated_key(yaml.compose(text, Loader=yaml.SafeLoader))
        if repeated is None:
            value: object = yaml.safe_load(text)
            return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise OffleashError(f"{source} is not YAML: {line}{error.problem or error.context}. Correct it.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OffleashError(f"{source} is not YAML: {first}.") from None
    key, line_number = repeated
    raise OffleashError(f"{source} has the key {key!r} twice, the second time on line {line_number}. Keep one of them.")


def _repeated_key(root: object) -> tuple[str, int] | None:
    """A key that occurs twice in a mapping, and its line: YAML would drop the first one silently."""
    pending, visited = [root], set()
    while pending:
        node = pending.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in visited:  # an alias can make a cycle
            continue
        visited.add(id(node))
        if not isinstance(node, yaml.MappingNode):
            pending.extend(node.value)
            continue
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":  # merge keys may repeat
                if key.value in seen:
                    return str(key.value), key.start_mark.line + 1
                seen.add(key.value)
            pending.append(value)
    return None
