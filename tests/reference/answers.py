"""Diversity of answers from their counts: rarefied entropy, Chao-Wang-Jost, distinct answers, Chao1, majority votes."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from tests.reference.estimates import miss

UNREAD = None


@dataclass(frozen=True)
class Answered:
    """A problem with the answers of both runs in order; None is an answer that could not be read."""

    name: str
    right: frozenset[str]
    before: tuple[str | None, ...]
    after: tuple[str | None, ...]


def readable(answers: Sequence[str | None]) -> Counter[str]:
    """How often each readable answer was given."""
    return Counter(answer for answer in answers if answer is not UNREAD)


def entropy(counts: Sequence[int]) -> float:
    """Plug-in entropy in nats."""
    total = sum(counts)
    return math.fsum(-(c / total) * math.log(c / total) for c in counts if c)


def rarefied_entropy(counts: Sequence[int], m: int) -> float:
    """Expected plug-in entropy of m of the answers, chosen at random: a sum over the hypergeometric law of each."""
    total = sum(counts)
    ways = math.comb(total, m)
    terms = []
    for c in counts:
        for j in range(1, min(c, m) + 1):
            chance = math.comb(c, j) * math.comb(total - c, m - j) / ways
            terms.append(-chance * (j / m) * math.log(j / m))
    return math.fsum(terms)


def estimated_entropy(counts: Sequence[int]) -> float:
    """Chao, Wang and Jost (2013), equation 8: entropy of all answers, also those not seen."""
    n = sum(counts)
    f1, f2 = sum(c == 1 for c in counts), sum(c == 2 for c in counts)
    seen = math.fsum(c / n * math.fsum(1 / j for j in range(c, n)) for c in counts)
    if f1 == 0:
        return seen
    A = 2 * f2 / ((n - 1) * f1 + 2 * f2) if f2 else 2 / ((n - 1) * (f1 - 1) + 2)
    # (1-A)^(1-n) (-ln A - sum over r < n of (1-A)^r/r) is the tail of the same series, from r = n on: nothing cancels
    rest, power, r = 0.0, 1 - A, n
    while power / r > 1e-18:
        rest += power / r
        power, r = power * (1 - A), r + 1
    return seen + f1 / n * rest


def distinct(counts: Sequence[int], m: int) -> float:
    """Expected number of different answers among m, chosen at random."""
    total = sum(counts)
    return math.fsum(float(1 - miss(total, c, m)) for c in counts)


def chao1(counts: Sequence[int]) -> float:
    """Lower bound on the number of different answers (Chao 1984), with the factor (n-1)/n of a finite sample."""
    n = sum(counts)
    f1, f2 = sum(c == 1 for c in counts), sum(c == 2 for c in counts)
    unseen = Fraction(f1 * f1, 2 * f2) if f2 else Fraction(f1 * (f1 - 1), 2)
    return float(len([c for c in counts if c]) + Fraction(n - 1, n) * unseen)


def unseen_mass(counts: Sequence[int]) -> float:
    """Chance that the next answer is new: Good-Turing."""
    return sum(c == 1 for c in counts) / sum(counts)


def majority(counts: dict[str, int], right: frozenset[str], unread: int, k: int) -> Fraction:
    """Chance that the most frequent of k votes is right, ties sharing the credit: by counting all ways to draw k."""
    total = sum(counts.values()) + unread
    won = Fraction(0)
    for candidate in right & counts.keys():
        others = [c for answer, c in counts.items() if answer != candidate]
        for votes in range(1, min(counts[candidate], k) + 1):
            ways = {(0, 0): 1}  # (votes of the others, how many of them have as many as the candidate): ways
            for c in others:
                more: Counter[tuple[int, int]] = Counter()
                for (used, ties), many in ways.items():
                    for v in range(min(c, votes, k - votes - used) + 1):
                        more[used + v, ties + (v == votes)] += many * math.comb(c, v)
                ways = dict(more)
            for (used, ties), many in ways.items():
                void = k - votes - used
                if void <= unread:
                    drawn = many * math.comb(counts[candidate], votes) * math.comb(unread, void)
                    won += Fraction(drawn, math.comb(total, k) * (1 + ties))
    return won


def study(seed: int) -> tuple[Answered, ...]:
    """Random answers: up to 14 problems, 1 to 40 samples of each run, up to 8 answers, of which 1 or 2 are right."""
    rng = np.random.default_rng([21, seed])
    size = int(rng.integers(1, 15))
    ragged = bool(seed % 2)
    most = int(rng.integers(1, 41))
    problems = []
    for index in range(size):
        choices = [f"{index}{letter}" for letter in "abcdefgh"[: int(rng.integers(1, 9))]]
        right = frozenset(choices[: int(rng.integers(1, 3))])
        runs = []
        for _ in range(2):
            n = int(rng.integers(1, most + 1)) if ragged else most
            chance = rng.dirichlet(np.full(len(choices), 0.6))
            unread = float(rng.choice([0.0, 0.1, 0.4]))
            drawn = [
                UNREAD if rng.random() < unread else choices[int(rng.choice(len(choices), p=chance))] for _ in range(n)
            ]
            runs.append(tuple(drawn))
        problems.append(Answered(f"q{index:02}", right, runs[0], runs[1]))
    return tuple(problems)


def write(problems: Sequence[Answered], folder: Path, run: str) -> str:
    """The samples of a run as a log; returns NAME=PATH."""
    path = folder / f"{run}.jsonl"
    rows = []
    for problem in problems:
        answers: tuple[str | None, ...] = getattr(problem, run)
        verdicts = ["unread" if a is UNREAD else "correct" if a in problem.right else "wrong" for a in answers]
        rows.append({"problem_id": problem.name, "predicted_answer": list(answers), "verdict": verdicts})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{run}={path}"
