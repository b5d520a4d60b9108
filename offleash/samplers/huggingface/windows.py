"""Windows: a text that is longer than a model can read, in parts that follow what stands before them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Tokens [start, stop) of a text, foretold from what stands before them; the last one is foretold and not read."""

    start: int
    stop: int
    history: int | None  # tokens before `start`, of the prompt and the text, that are read; None: the prompt whole


def windows(prompt: int, text: int, context: int | None) -> list[Window]:
    """The windows of a text of so many tokens; one where all fits, none where the text is empty.

    Every token is foretold once. From the second window on, half of the context is what stands before it: the prompt
    itself is then out of sight once the text is long enough, as it would be for any model with a sliding context.
    """
    if not text:
        return []
    first = text if context is None else min(text, context - prompt + 1)
    found = [Window(0, first, None)]
    while context is not None and found[-1].stop < text:
        start = found[-1].stop
        history = min(max(1, context // 2), prompt + start)
        found.append(Window(start, min(text, start + context - history + 1), history))
    return found
