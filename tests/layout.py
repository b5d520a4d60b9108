"""How the package is laid out, in numbers: python -m tests.layout. Orientation, not a limit.

Prints how many files there are and how long they are, splinters (files under 120 lines that only one neighbour in the
same folder imports; `api`, `cli`, the package root and registries do not count as importers), and over how many folders
a feature is spread.
"""

from collections import defaultdict
from statistics import median

from tests.places import PACKAGE
from tests.test_architecture import imports, modules

SPLINTER = 120
FEATURES = {
    "entropy": ("entropy", "entropies"),
    "likelihood": ("likelihood", "cross_support", "perplexity"),
    "strategies": ("strateg", "fingerprint"),
    "certificates": ("certif", "nucleus"),
}
SHARED = ("cli", "stats", "data", "training/methods")  # where a part of a feature is expected


def importers() -> dict[str, set[str]]:
    """Who imports each module, without those that name everything."""
    found = defaultdict(set)
    for name, names in imports().items():
        everything = (
            name == "offleash" or name.startswith(("offleash.api", "offleash.cli")) or name.endswith("registry")
        )
        for other in () if everything else names:
            found[other].add(name)
    return found


def splinters(lines: dict[str, int]) -> list[str]:
    """Small files that are a part of one neighbour."""
    by = importers()
    found = []
    for name, size in lines.items():
        folder = name.rpartition(".")[0]
        alone = {other.rpartition(".")[0] for other in by[name]} == {folder} and len(by[name]) == 1
        if size < SPLINTER and alone:
            found.append(f"{name} ({size} lines, of {next(iter(by[name]))})")
    return found


def main() -> None:
    lines = {
        name: len(path.read_text("utf-8").splitlines())
        for name, path in modules().items()
        if path.name != "__init__.py"
    }
    longest = max(lines, key=lambda name: lines[name])
    print(f"{len(lines)} files, median {median(lines.values()):.0f} lines, longest {lines[longest]} ({longest})")
    small = splinters(lines)
    print(f"{len(small)} files under {SPLINTER} lines whose only importer is a neighbour:")
    for one in small:
        print(f"  {one}")
    for feature, words in FEATURES.items():
        paths = [path.relative_to(PACKAGE) for name, path in modules().items() if name in lines]
        named = {path.parent.as_posix() for path in paths if any(word in path.stem for word in words)}
        named |= {path.parent.as_posix() for path in paths if any(word in path.parent.as_posix() for word in words)}
        homes = {"/".join(folder.split("/")[:2]) for folder in named} - set(SHARED)
        print(f"{feature}: {', '.join(sorted(homes))}")


if __name__ == "__main__":
    main()
