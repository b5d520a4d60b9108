"""Decodings of runs that are to be compared: what a model reaches depends on how it is drawn from."""

import json
import math
from collections.abc import Mapping, Sequence

from offleash.data.notes import Note
from offleash.data.run import Run
from offleash.errors import OffleashError, unknown

DECODING = "decoding"  # what --allow may name
ALLOWED = (DECODING,)
STOP = "stop"  # texts that end a sample
NAMES = ("temperature", "top_p", "top_k", "min_p", "max_tokens")


def allowed(words: Sequence[str]) -> frozenset[str]:
    """What may differ between runs, from plain words."""
    for word in words:
        if word not in ALLOWED:
            raise unknown("word for what may differ between runs", word, ALLOWED)
    return frozenset(words)


def same_decoding(before: Run, after: Run, allow: frozenset[str]) -> tuple[Note, ...]:
    """Refuse two runs that are known to be drawn in different ways, or note it where that is allowed."""
    differing = _differing(before, after)
    if not differing:
        return ()
    told = ", ".join(f"{name} {was} and {now}" for name, was, now in differing)
    if DECODING in allow:
        return (Note(f"{before.name} and {after.name} were drawn in different ways ({told}), which was allowed"),)
    raise OffleashError(
        f"{before.name!r} and {after.name!r} were drawn in different ways: {told}. How a model is drawn from decides "
        "what it reaches, so the change would be that of the decoding and of the training together. Draw both alike "
        "(offleash draw --temperature, or offleash sweep for several), or compare them as they are with "
        "--allow decoding."
    )


def _differing(before: Run, after: Run) -> list[tuple[str, str, str]]:
    """Settings that both runs tell and that differ, each as it is written."""
    one, other = _known(before), _known(after)
    return [(name, one[name], other[name]) for name in one if name in other and one[name] != other[name]]


def _known(run: Run) -> dict[str, str]:
    """A run's decoding in one writing, as far as it tells it."""
    try:
        document = json.loads(run.facts.get("decoding", "{}"))
    except ValueError:  # a log may tell its decoding in any words
        return {}
    found = document if isinstance(document, Mapping) else {}
    numbers = {name: value for name in NAMES if isinstance(value := found.get(name), int | float)}
    told = {name: f"{value:.9g}" for name, value in numbers.items() if math.isfinite(value)}
    stop = found.get(STOP)
    return told | ({STOP: json.dumps(sorted(map(str, stop)), ensure_ascii=True)} if isinstance(stop, list) else {})
