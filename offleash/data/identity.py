"""Is this the same run? What a folder was made with against what a command asks for, and one refusal for all.

Whatever can be resumed (samples, certificates, sweeps, scores, training runs) holds a description of what made it.
Adding to it by another model, decoding or problem set would mix two things under one name, and no statistic could
separate them again, so every verb compares the two descriptions before it writes, and refuses with the
settings that differ.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from offleash.data.run import Origin
from offleash.data.tables import PROBLEMS
from offleash.errors import OffleashError

MAX_VALUE_CHARACTERS = (
    160  # characters of a value in a message: two prompts that differ at their ends still look different
)
# Versions of libraries may change within a run: they are recorded, not compared. The model is compared by its full
# name, with revision and adapter, which the user types; the sampler's own name for it follows from that.
NOT_COMPARED = {"versions", "model"}


class SettingDifference(NamedTuple):
    """A setting that a folder and a command do not share; None: one of them does not have it."""

    name: str
    stored: object
    requested: object


def differences(
    stored: Mapping[str, object], requested: Mapping[str, object], prefix: str = ""
) -> list[SettingDifference]:
    """What differs between two descriptions, in the order of their keys; nested settings have dotted names.

    Args:
        stored: what the folder was made with.
        requested: what the command asks for. A key that only one of them has counts as None in the other, so that
            folders of older versions, which lack newer settings, compare equal to commands that do not use them.
        prefix: put before every name.

    >>> differences({"seed": 0, "decoding": {"top_p": 1.0}}, {"seed": 0, "decoding": {"top_p": 0.9}})
    [SettingDifference(name='decoding.top_p', stored=1.0, requested=0.9)]
    """
    pairs = []
    for name in dict.fromkeys([*stored, *requested]):
        old, new = stored.get(name), requested.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            pairs += differences(old, new, f"{prefix}{name}.")
        elif old != new:
            pairs.append(SettingDifference(prefix + name, old, new))
    return pairs


def origin_differences(stored: Origin, requested: Origin) -> list[SettingDifference]:
    """What would change who answers, or how. The grid of requests and the key follow from the rest."""
    return differences(_comparable_settings(stored), _comparable_settings(requested))


def _comparable_settings(origin: Origin) -> dict[str, object]:
    return {
        "model": origin.model,
        "seed": origin.seed,
        "decoding": origin.decoding,
        "sampler": {name: value for name, value in origin.about.items() if name not in NOT_COMPARED},
        "chat template (hash)": origin.template,
        "prompt opens a reasoning block": origin.thinking,
        "prompt template": origin.prompt,
        "prompts (hash)": origin.prompts,
    }


def problem_differences(stored: pl.DataFrame, requested: pl.DataFrame) -> list[SettingDifference]:
    """What differs between two tables of problems, as far as the first problem; their order does not matter.

    The hashes of all prompts would reveal that something changed, and this says what: a user can fix one problem.
    """
    stored, requested = stored.sort("problem"), requested.sort("problem")
    unmatched_ids = sorted(set(stored["problem"]) ^ set(requested["problem"]))
    if unmatched_ids:
        in_frame = [unmatched_ids[0] in set(frame["problem"]) for frame in (stored, requested)]
        return [
            SettingDifference("number of problems", stored.height, requested.height),
            SettingDifference(f"has problem {unmatched_ids[0]!r}", *in_frame),
        ]
    # the hash is the question's; further columns of a file decide no sample
    for column in [name for name in PROBLEMS if name not in ("problem", "hash", "columns")]:
        for problem, old, new in zip(
            stored["problem"], stored[column].to_list(), requested[column].to_list(), strict=True
        ):
            if old != new:
                return [SettingDifference(f"{column} of problem {problem!r}", old, new)]
    return []


def refuse_differences(path: Path, contents: str, pairs: Sequence[SettingDifference], step: str) -> None:
    """Refuse to mix what a folder holds with something else.

    Args:
        path: the folder or file.
        holds: what is in it, such as "samples".
        pairs: the settings that differ; where there are none, nothing is refused.
        step: a sentence on what the user can do.
    """
    if pairs:
        lines = "\n".join(
            f"  {name}: stored {_shortened_value(old)}, requested {_shortened_value(new)}" for name, old, new in pairs
        )
        raise OffleashError(f"{path} holds {contents} made with different settings:\n{lines}\n{step}")


def resume_step(verb: str) -> str:
    """What to do where a folder cannot be resumed by a verb that takes -o."""
    return f"Use the stored settings to resume, or {verb} into another folder with -o."


def _shortened_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return (
        text
        if len(text) <= MAX_VALUE_CHARACTERS
        else f"{text[: MAX_VALUE_CHARACTERS // 2]} … {text[-MAX_VALUE_CHARACTERS // 2 :]}"
    )
