"""What differs between a folder and a command that would go on with it: model, decoding, prompts, problems."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import polars as pl

from offleash.data.problem import PROBLEMS
from offleash.data.run import Origin
from offleash.errors import OffleashError

Difference = tuple[str, object, object]  # of what, in the folder, now
SHOWN = 160  # characters of a value in a message
FREE = {"versions", "model"}  # of who answers: versions may change, the model is compared by its full name


def differences(old: Origin, new: Origin) -> Iterator[Difference]:
    """Everything that would change who answers, or how."""
    yield from changed("", {"model": old.model, "seed": old.seed}, {"model": new.model, "seed": new.seed})
    yield from changed("decoding: ", old.decoding, new.decoding)
    was, now = ({name: value for name, value in one.about.items() if name not in FREE} for one in (old, new))
    yield from changed("model: ", was, now)
    named = (("chat template (hash)", "template"), ("reasoning opened by the prompt", "thinking"))
    for words, name in (*named, ("prompts (hash)", "prompts")):
        yield from changed("", {words: asdict(old)[name]}, {words: asdict(new)[name]})


def changed(prefix: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield prefix + name, old.get(name), new.get(name)


def told(pairs: Iterable[Difference], where: str) -> str:
    """Differences, one a line."""
    return "\n".join(f"  {name}: {shown(was)} in the {where}, {shown(now)} now" for name, was, now in pairs)


def refuse_other_problems(
    folder: Path, old: pl.DataFrame, new: pl.DataFrame, where: str, verb: str, more: str = ""
) -> None:
    """Refuse problems that are not those of the folder; `more` is a way out where the text is the same."""
    old, new = old.sort("problem"), new.sort("problem")
    step = f"Give the same problems to go on, or {verb} into another folder with -o"
    strangers = sorted(set(old["problem"]) ^ set(new["problem"]))
    if strangers:
        raise OffleashError(
            f"{folder} holds {old.height} problems and this command asks {new.height}; {strangers[0]!r} is in one of "
            f"them only. {step}."
        )
    for column in [name for name in PROBLEMS if name not in ("problem", "hash")]:  # the hash is the question's
        for problem, was, now in zip(old["problem"], old[column].to_list(), new[column].to_list(), strict=True):
            if was != now:
                raise OffleashError(
                    f"{folder}: problem {problem!r} has another {column} now: {shown(was)} in the {where}, "
                    f"{shown(now)} now. {step}{more}."
                )


def shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]} … {text[-SHOWN // 2 :]}"
