"""Countdown problems: reach a target from four numbers with + - * /, generated in parts that share no numbers.

The part (train, dev or test) is a hash of the numbers, whatever their order and the target: a model trained on `train`
has seen neither a problem of `dev` or `test` nor another target for the same numbers. lab/chain_sum.py splits in the
same way.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import polars as pl

from offleash.data.tables import as_problems
from offleash.errors import OffleashError, unknown

NAME = "countdown"
NUMBERS, LARGEST = 4, 20  # given numbers
VALUE_LIMIT = 100  # every value on the way is a whole number from 0 to below this: one token each in the lab
SIGNS = "+-*/+-"  # drawn uniformly: + and - twice as often, since * and / often leave the allowed range
DEFAULT_SIZE = 200  # problems when no size is given
TRIES_PER_PROBLEM = 50  # problems tried per problem wanted, before giving up


@dataclass(frozen=True)
class CountdownStep:
    """One step of a worked solution: left sign right = value."""

    left: int
    sign: str
    right: int
    value: int

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right} = {self.value}"


def split_of(numbers: Sequence[int]) -> str:
    """The part (train, dev, test) of a set of numbers, whatever their order."""
    return split_of_text(" ".join(map(str, sorted(numbers))))


def value_of(left: int, sign: str, right: int) -> int | None:
    """The value of a step; None where it is not a whole number from 0 to below VALUE_LIMIT."""
    if sign == "/":
        value = left // right if right and not left % right else -1
    else:
        value = left + right if sign == "+" else left - right if sign == "-" else left * right
    return value if 0 <= value < VALUE_LIMIT else None


def random_steps(numbers: Sequence[int], rng: random.Random) -> list[CountdownStep]:
    """Random steps from all the numbers to one value, the larger number first: a chain, or two pairs that meet.

    Rejection: a derivation that leaves the allowed range is drawn again from the start.
    """
    while True:
        remaining, steps = list(numbers), list[CountdownStep]()
        while len(remaining) > 1:
            small, large = sorted(remaining.pop(rng.randrange(len(remaining))) for _ in range(2))
            sign = rng.choice(SIGNS)
            value = value_of(large, sign, small)
            if value is None:
                break
            steps.append(CountdownStep(large, sign, small, value))
            remaining.append(value)
        else:
            return steps


def question(numbers: Sequence[int], target: int) -> str:
    """The prompt of a problem."""
    return f"{' '.join(map(str, numbers))} = {target} :"


def steps_text(steps: Sequence[CountdownStep]) -> str:
    """Steps as the text of an answer."""
    return " , ".join(map(str, steps))


def numbers_of(part: str, rng: random.Random) -> list[int]:
    """Four random numbers of a part, by rejection."""
    while True:
        numbers = [rng.randint(1, LARGEST) for _ in range(NUMBERS)]
        if split_of(numbers) == part:
            return numbers


def generate(part: str, size: int, seed: int) -> pl.DataFrame:
    """`size` different problems that can be solved; a longer set of the same seed begins with the shorter one."""
    if part not in SPLITS:
        raise unknown(f"{NAME} part", part, SPLITS)
    rows = [
        {
            "problem": f"{NAME}-{'-'.join(map(str, numbers))}-{target}",
            "question": question(numbers, target),
            "prompt": question(numbers, target),
            "benchmark": NAME,
            "verifier": "countdown",
            "details": json.dumps({"numbers": numbers, "target": target, "all": True, "integers": True}),
        }
        for _, (numbers, target) in zip(range(size), _distinct_problems(part, seed, size), strict=False)
    ]
    if len(rows) < size:
        raise OffleashError(f"{NAME}:{part} has only {len(rows)} different problems. Use --size {len(rows)} or fewer.")
    return as_problems(pl.DataFrame(rows))


def _distinct_problems(part: str, seed: int, size: int) -> Iterator[tuple[list[int], int]]:
    """Problems of a part that differ in their numbers or their target."""
    # A string seed: Python hashes it with SHA-512, so parts and seeds have unrelated streams.
    rng, seen = random.Random(f"{part} {seed}"), set[tuple[int, ...]]()
    for _ in range(size * TRIES_PER_PROBLEM):
        numbers = numbers_of(part, rng)
        target = random_steps(numbers, rng)[-1].value
        key = (*sorted(numbers), target)
        if key not in seen:
            seen.add(key)
            yield numbers, target


SPLITS = ("train", "dev", "test")
HELD_OUT = {0: "test", 1: "dev"}  # of 16 hash values, one is held out for tests and one for tuning


def split_of_text(text: str) -> str:
    """The part of what this text identifies. It depends on the text alone, so no seed or size can leak a test."""
    return HELD_OUT.get(blake2b(text.encode(), digest_size=2).digest()[0] % 16, "train")
