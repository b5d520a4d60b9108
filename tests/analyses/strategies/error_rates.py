"""Error rates of fingerprints on planted pairs: paraphrases that must merge, and different methods that must not."""

from collections.abc import Sequence
from dataclasses import dataclass

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint
from offleash.analyses.strategies.fingerprints.registry import FINGERPRINTS, fingerprint
from offleash.analyses.strategies.read import Reader
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.stats.intervals import Interval, wilson
from offleash.verifiers.sandbox.pool import Pool
from tests.analyses.strategies.planted.pair import Pair
from tests.analyses.strategies.planted.planted import PLANTED


@dataclass(frozen=True)
class Rate:
    """Errors among planted pairs of one kind, with Wilson's interval."""

    errors: int
    pairs: int

    @property
    def value(self) -> float:
        return self.errors / self.pairs if self.pairs else float("nan")

    @property
    def interval(self) -> Interval:
        return wilson(self.errors, self.pairs)


@dataclass(frozen=True)
class Checked:
    """What a fingerprint did with its planted pairs."""

    by: Fingerprint
    split: Rate  # paraphrases that it did not merge, or could not read
    merged: Rate  # different methods that it merged
    unread: int  # texts of which it could not tell the way
    failures: tuple[Pair, ...]


def check_ways(names: Sequence[str] = (), seed: int = 0, jobs: int = 1, progress: Progress = silent) -> list[Checked]:
    """Error rates of the fingerprints named, or of all, on the pairs planted for them."""
    chosen = [fingerprint(name) for name in names or FINGERPRINTS]
    for one in chosen:
        if one.name not in PLANTED:
            raise OffleashError(f"No pairs are planted for {one.function!r}; --check knows {', '.join(PLANTED)}.")
    with Pool(max(jobs, 1)) as pool:
        return [measured(one, PLANTED[one.name](seed), pool, progress) for one in chosen]


def measured(by: Fingerprint, pairs: Sequence[Pair], pool: Pool, progress: Progress = silent) -> Checked:
    """How a fingerprint does on pairs; two texts that it cannot read are not merged."""
    rows = [(pair.asked, text) for pair in pairs for text in (pair.first, pair.second)]
    told = [way for way, _ in Reader(by, pool, progress).ways(rows)]
    merged = [one is not None and one == other for one, other in zip(told[0::2], told[1::2], strict=True)]
    wrong = [pair for pair, one in zip(pairs, merged, strict=True) if one != pair.same]
    same = sum(pair.same for pair in pairs)
    split = sum(pair.same for pair in wrong)
    return Checked(
        by=by,
        split=Rate(split, same),
        merged=Rate(len(wrong) - split, len(pairs) - same),
        unread=sum(way is None for way in told),
        failures=tuple(wrong),
    )
