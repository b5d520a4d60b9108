"""Planted pairs for the fingerprint `program`: one program rewritten, and two ideas for one task."""

import re
from collections.abc import Callable

import numpy as np

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem
from tests.analyses.strategies.planted.pair import Pair
from tests.analyses.strategies.planted.planted_scripts import SCRIPTS_DIFFERENT, SCRIPTS_SAME
from tests.analyses.strategies.planted.planted_sources import PROGRAMS_DIFFERENT, PROGRAMS_SAME, TASKS

COUNT = 60  # made pairs of each kind
_NAME = re.compile(r"\b[a-z_]\w*\b")
_TAKEN = {"sum", "len", "range", "sorted", "set", "max", "min", "abs", "reversed", "list", "dict", "str", "int", "all"}


def planted_program(seed: int = 0) -> list[Pair]:
    """Pairs that must merge, then pairs that must not; made ones first, then those written by hand."""
    rng = np.random.default_rng([seed, 13])
    same, different = list[Pair](), list[Pair]()
    for number in range(COUNT):
        name, sources = TASKS[number % len(TASKS)]
        asked = SolvedProblem(f"program-{name}", question=f"Write a function for: {name}")
        one, other = (sources[int(place)] for place in rng.choice(len(sources), size=2, replace=False))
        chosen = sorted(int(place) for place in rng.choice(len(CHANGES), size=3, replace=False))
        changed = one
        for place in chosen:
            changed = CHANGES[place](changed, rng)
        how = ", ".join(CHANGES[place].__name__ for place in chosen)
        same.append(Pair("program", True, asked, fenced(one, rng), fenced(changed, rng), how))
        different.append(Pair("program", False, asked, fenced(one, rng), fenced(other, rng), "two ideas"))
    alike, unlike = (*PROGRAMS_SAME, *SCRIPTS_SAME), (*PROGRAMS_DIFFERENT, *SCRIPTS_DIFFERENT)
    same += [Pair("program", True, SolvedProblem("by hand"), one, other, "by hand") for one, other in alike]
    different += [Pair("program", False, SolvedProblem("by hand"), one, other, "by hand") for one, other in unlike]
    return same + different


def fenced(source: str, rng: np.random.Generator) -> str:
    """The program as a model gives it: in a block of code, with or without words around it."""
    before = str(rng.choice(["", "Here is a solution.\n\n", "<think>Let me see.</think>\nThe idea is simple:\n"]))
    after = str(rng.choice(["", "\n\nIt runs in linear time."]))
    return f"{before}```python\n{source}\n```{after}"


def renamed(source: str, rng: np.random.Generator) -> str:
    """Every parameter and variable under another name."""
    own = dict.fromkeys(re.findall(r"(?<![\w.])([a-z_]\w*)(?= (?:[-+*/]|//)?= )|\bfor ([a-z_]\w*)", source))
    names = [one or other for one, other in own]
    for inside in re.findall(r"def \w+\(([^)]*)\)", source):
        names += [part.split(":")[0].split("=")[0].strip() for part in inside.split(",")]
    new = {name: f"{rng.choice(['value', 'item', 'x', 'acc'])}_{place}" for place, name in enumerate(names) if name}
    return _NAME.sub(lambda found: found[0] if found[0] in _TAKEN else new.get(found[0], found[0]), source)


def commented(source: str, rng: np.random.Generator) -> str:
    """A comment at the end of a line and one on its own."""
    lines = source.split("\n")
    lines[0] += "  # the function"
    return "\n".join([f"# approach {rng.integers(9)}", *lines])


def documented(source: str, rng: np.random.Generator) -> str:
    """A docstring under the head of the first function."""
    return re.sub(r"(def [^\n]*:\n)", '\\1    """Solve it.\n\n    Example: none."""\n', source, count=1)


def spaced(source: str, rng: np.random.Generator) -> str:
    """Indentation of two, blank lines between statements."""
    lines = [" " * ((len(line) - len(line.lstrip())) // 2) + line.lstrip() for line in source.split("\n")]
    return "\n\n".join(lines)


def bracketed(source: str, rng: np.random.Generator) -> str:
    """Brackets around what is returned."""
    return re.sub(r"return (\S[^\n]*)", r"return (\1)", source)


def hinted(source: str, rng: np.random.Generator) -> str:
    """Types of the parameters and of the result."""

    def head(found: re.Match[str]) -> str:
        parts = [part.strip() for part in found[2].split(",") if part.strip()]
        return f"def {found[1]}({', '.join(part if '=' in part else f'{part}: object' for part in parts)}) -> object:"

    return re.sub(r"def (\w+)\(([^)]*)\):", head, source)


def shown(source: str, rng: np.random.Generator) -> str:
    """An example of its use under it."""
    name = re.findall(r"def (\w+)", source)[-1]
    return f'{source}\n\nif __name__ == "__main__":\n    print({name}([{rng.integers(9)}, 2, 3]))'


Change = Callable[[str, np.random.Generator], str]
CHANGES: tuple[Change, ...] = (renamed, hinted, commented, documented, bracketed, shown, spaced)
