"""Options that belong together are one group, a dataclass; a verb takes the group and its users type the options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Protocol, get_type_hints, runtime_checkable

LAST = "as_json"
RUNS = "runs"


@runtime_checkable
class RunDependentOptions(Protocol):
    """A group whose options go with some runs only."""

    def fit(self, runs: Sequence[str], flags: Mapping[str, str]) -> None:
        """Refuse options that these runs cannot serve; `flags` are the options as they are typed, by name."""


def taking(*without: str, **instead: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Spread every group among a verb's parameters into its options, and gather what was typed into the group again.

    `without` leaves options out, which keep their defaults; `instead` declares some otherwise, by name. In the help a
    verb's own options come first and --json last. Groups that are
    `RunDependentOptions` check themselves against the verb's runs.
    """

    def given(verb: Callable[..., None]) -> Callable[..., None]:
        own = signature(verb, eval_str=True).parameters
        groups = {
            name: _options(one.annotation, without, instead)
            for name, one in own.items()
            if is_dataclass(one.annotation)
        }
        plain = [one for name, one in own.items() if name not in groups]
        first, last = ([one for one in plain if (one.name == LAST) is is_last] for is_last in (False, True))
        spread = [*first, *(option for options in groups.values() for option in options), *last]

        @wraps(verb)
        def command(**typed: object) -> None:
            for name, options in groups.items():
                group = own[name].annotation(**{option.name: typed.pop(option.name) for option in options})
                if isinstance(group, RunDependentOptions) and isinstance(runs := typed.get(RUNS), list):
                    group.fit(runs, {option.name: _flag(option) for option in options})
                typed[name] = group
            verb(**typed)

        once = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in spread]
        command.__signature__ = Signature(once)  # type: ignore[attr-defined]
        return command

    return given


def _flag(option: Parameter) -> str:
    """An option as it is typed: as declared, of which typer holds the first word as `default`, else after its name."""
    words = [word for about in option.annotation.__metadata__ for word in (about.default, *(about.param_decls or ()))]
    declared = [word for word in words if isinstance(word, str) and word.startswith("--")]
    return declared[0] if declared else f"--{option.name.replace('_', '-')}"


def _options(group: Any, without: tuple[str, ...], instead: dict[str, object]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True) | instead
    return [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(group)
        if one.name not in without
    ]
