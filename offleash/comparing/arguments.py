"""From run arguments to comparisons: load the runs, verify them first if wanted, compare, and find flips.

The entry points of `offleash compare`, studies.py and api.py. Several runs after the first are checkpoints of one
training; their union is what they reach together.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from offleash.comparing.align import allowed
from offleash.comparing.compare import Comparison, compare_all
from offleash.comparing.flips import Flips, StoredVerdicts, flips
from offleash.comparing.question import Question
from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.data.run_folder import is_run, verifiers
from offleash.data.tables import Note
from offleash.data.tally import Per
from offleash.errors import OffleashError, unknown
from offleash.loading.arguments import distinct_names, distinct_paths, parse_argument
from offleash.loading.load import Reading, load
from offleash.progress import Progress, silent
from offleash.stats.binomials import Integer
from offleash.stats.support_classes import Rule, reach_PRK
from offleash.verifying.logs import Disagreement, verify_before_comparing
from offleash.verifying.verify import verifying

# Checkpoints: what the runs after the first reach together.


@dataclass(frozen=True)
class Union:
    """The first run at k against all others together: at k each, and at the same total budget."""

    k: int
    checkpoints: int
    problems: int
    each_k: tuple[float, float, float, float]  # P, E, S, O with k samples of every checkpoint: more samples than before
    equal_k: tuple[float, float, float, float] | None  # with k split over the checkpoints; None when k < checkpoints


def union(runs: Sequence[Run], at: int | None = None) -> Union:
    """What the runs after the first reach together, on the problems that all of them have."""
    counted = tally(runs, at).tally
    k, others = counted.head, len(runs) - 1
    before_P = reach_PRK(counted, np.array([k]))[:, 0, 0]

    def cells(share_KR: Integer) -> tuple[float, float, float, float]:
        """P, E, S, O with these numbers of samples of each checkpoint, mean over the rows of numbers."""
        miss_PK = np.ones((len(counted), len(share_KR)))
        for r in range(others):
            miss_PK *= 1 - reach_PRK(counted, share_KR[:, r])[:, 1 + r]
        b_P = 1 - miss_PK.mean(axis=1)
        both = float(before_P @ b_P)
        found, lost = float(b_P.sum()) - both, float(before_P.sum()) - both
        return both, found, lost, max(len(counted) - both - found - lost, 0.0)

    each, equal = np.full((1, others), k), _shares(k, others)
    return Union(k, others, len(counted), cells(each), cells(equal) if k >= others else None)


def _shares(k: int, others: int) -> Integer:
    """k samples shared out evenly, the rest of the division to each checkpoint in turn: one row a turn."""
    turn = (np.arange(others)[None] - np.arange(others)[:, None]) % others
    return np.asarray(k // others + (turn < k % others), dtype=np.int64)


# Options and run arguments as a user gives them, to comparisons and flips.


Choice = TypeVar("Choice", bound=StrEnum)


class Unread(StrEnum):
    KEEP = "keep"
    DROP = "drop"


def question(
    rule: str = "seen",
    per: str = "problem",
    at: int | None = None,
    tau: float = 0.0,
    unread: str = "keep",
    guess: float | None = None,
    replicates: int = 10_000,
    seed: int = 0,
    allow: Sequence[str] = (),
) -> Question:
    """What to compare, from plain words."""
    if not 100 <= replicates <= 1_000_000:
        raise OffleashError(f"Intervals take 100 to 1,000,000 replicates; found --replicates {replicates}.")
    if seed < 0:
        raise OffleashError(f"A seed is a whole number from 0; found --seed {seed}.")
    if not 0 <= tau < 1:
        raise OffleashError(f"tau is a rate, at least 0 and below 1; found --tau {tau}.")
    chosen = choice("rule", rule, Rule)
    if tau and chosen is not Rule.ABOVE:
        raise OffleashError(f"--tau is the rate of the rule 'above', and the rule is {rule!r}; add --rule above.")
    return Question(
        rule=chosen,
        per=choice("target", per, Per),
        at=at,
        tau=tau,
        drop_unread=choice("way with unread samples", unread, Unread) is Unread.DROP,
        guess=guess,
        allow=allowed(allow),
        replicates=replicates,
        seed=seed,
    )


def compare_arguments(
    arguments: Sequence[str],
    reading: Reading | None = None,
    asked: Question | None = None,
    before: str | None = None,
    after: str | None = None,
    progress: Progress = silent,
    copied: Mapping[str, tuple[Note, ...]] | None = None,
) -> tuple[list[Comparison], Union | None]:
    """Load the runs and compare the first with each of the others; with several others, also with their union.

    `copied` has the notes of logs that were copied into run folders, by run.
    """
    runs = load(*arguments, reading=reading, progress=progress)
    runs = [replace(run, notes=(copied or {}).get(run.name, ()) + run.notes) for run in runs]
    runs = _chosen(runs, before, after)
    notes = tuple(note for note in (_unquoted(arguments), _versions(runs)) if note is not None)
    runs = [replace(runs[0], notes=notes + runs[0].notes), *runs[1:]]
    progress(f"comparing {', '.join(run.name for run in runs)}")
    comparisons = compare_all(runs, asked)
    together = union(runs, asked.at if asked else None) if len(runs) > 2 else None
    return comparisons, together


@contextmanager
def verified_first(
    arguments: Sequence[str], reading: Reading, verifier: str | None, jobs: int, trust_code: bool, progress: Progress
) -> Iterator[tuple[Sequence[str], Reading, list[Disagreement]]]:
    """The arguments to compare once their samples are judged by the verifier named; as they are where none is."""
    if verifier is None:
        yield arguments, reading, []
        return
    options = verifying(verifier, jobs=jobs, trust_code=trust_code)
    if reading.verifier is not None:
        raise OffleashError(f"--verify {verifier} judges anew; leave out --verifier {reading.verifier}.")
    with TemporaryDirectory(prefix="offleash-") as scratch:
        found, name, judged = verify_before_comparing(arguments, reading, options, Path(scratch), progress)
        yield found, Reading(verifier=name), judged


def flips_arguments(
    arguments: Sequence[str],
    comparisons: Sequence[Comparison],
    reading: Reading | None = None,
    progress: Progress = silent,
) -> list[Flips]:
    """For each comparison of these arguments, the problems whose class depends on how samples are judged."""
    names = distinct_names([argument.name for argument in distinct_paths([parse_argument(a) for a in arguments])])
    judged = {name: _judged(text, reading or Reading()) for name, text in zip(names, arguments, strict=True)}
    out = []
    for one in comparisons:
        progress(f"which classes of {one.before.name} and {one.after.name} depend on how samples are judged")
        out.append(
            flips(one, judged.get(one.before.name, StoredVerdicts()), judged.get(one.after.name, StoredVerdicts()))
        )
    return out


def _judged(text: str, reading: Reading) -> StoredVerdicts:
    """The verdicts of every verifier that has judged all run folders of an argument."""
    paths = parse_argument(text).paths
    if not all(is_run(path) for path in paths):
        return StoredVerdicts(quote(text))
    known = set.intersection(*(set(verifiers(path)) for path in paths))
    runs = {name: load(text, reading=replace(reading, verifier=name))[0] for name in sorted(known)}
    verdicts = {name: run.verdicts for name, run in runs.items() if run.verdicts is not None}
    return StoredVerdicts(" ".join(quote(str(path)) for path in paths), folder=True, verdicts=verdicts)


def _unquoted(arguments: Sequence[str]) -> Note | None:
    """A glob that the shell has cut into its files names as many runs as there are files."""
    folders = Counter(str(Path(argument).parent) for argument in arguments if Path(argument).is_file())
    folder, files = folders.most_common(1)[0] if folders else ("", 0)
    if len(arguments) < 4 or files < 3:
        return None
    taken = f"{files} files of {folder} were taken as {files} runs"
    return Note(f"{taken}; to merge the seeds or benchmarks of one run, quote the glob ('{folder}/*')")


def _versions(runs: Sequence[Run]) -> Note | None:
    """The newest version of a verifier may be another in each folder, and then a difference may be its own."""
    by = {run.name: run.verifier for run in runs if run.verifier and "@" in run.verifier}
    if len({verifier.split("@")[0] for verifier in by.values()}) != 1 or len(set(by.values())) == 1:
        return None
    judged = ", ".join(f"{name} by {verifier}" for name, verifier in by.items())
    return Note(f"the runs were judged by different versions of a verifier ({judged}); offleash verify the older again")


def _chosen(runs: list[Run], before: str | None, after: str | None) -> list[Run]:
    """The runs in the order asked for: the one before, then the one after or all others."""
    by_name = {run.name: run for run in runs}
    for name in (before, after):
        if name is not None and name not in by_name:
            raise unknown("run", name, by_name)
    first = by_name[before] if before is not None else runs[0]
    if after is not None and by_name[after] is first:
        raise OffleashError(f"{first.name!r} is the run before and the run after; choose two of {', '.join(by_name)}.")
    others = [by_name[after]] if after is not None else [run for run in runs if run is not first]
    return [first, *others]


def choice(kind: str, word: str, choices: type[Choice]) -> Choice:
    """The choice that a word names."""
    try:
        return choices(word)
    except ValueError:
        raise unknown(kind, word, [choice.value for choice in choices]) from None
