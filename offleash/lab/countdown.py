"""The Countdown world: step by step from four numbers to a target. A problem often has several correct solutions.

Every number from 0 to 99 is one token. The corpus imitates web text: worked solutions, two in five of which miss their
stated target, and one in five of which has an arithmetic slip.
"""

import json
import random
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import TYPE_CHECKING

import polars as pl

from offleash.errors import OffleashError
from offleash.lab.world import LabWorld, Line
from offleash.problems import countdown
from offleash.problems.countdown import CountdownStep, numbers_of, question, random_steps, steps_text, value_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ON_TARGET_SHARE, ERROR_SHARE = 0.6, 0.2  # shares of lines that work towards their target, and that have a slip
ERROR_OFFSETS = (-10, -2, -1, 1, 2, 10)  # how far a slip is off
SYMBOLS = ("+", "-", "*", "/", "=", ",", ":")
END, PAD, UNKNOWN = "<end>", "<pad>", "<unk>"


def lines(rng: random.Random) -> Iterator[Line]:
    """Worked solutions to problems of the split `train`; neither the stated nor the reached target is held out."""
    while True:
        numbers = numbers_of("train", rng)
        steps = random_steps(numbers, rng)
        target = steps[-1].value if rng.random() < ON_TARGET_SHARE else rng.randrange(countdown.VALUE_LIMIT)
        if rng.random() < ERROR_SHARE:
            index = rng.randrange(len(steps))
            wrong_step = steps[index]
            value = min(max(wrong_step.value + rng.choice(ERROR_OFFSETS), 0), countdown.VALUE_LIMIT - 1)
            steps[index] = CountdownStep(wrong_step.left, wrong_step.sign, wrong_step.right, value)
        yield question(numbers, target), steps_text(steps)


def solutions(numbers: Sequence[int], target: int) -> list[list[CountdownStep]]:
    """Every solution, each order of steps and of equal numbers once."""
    if len(numbers) == 1:
        return [[]] if numbers[0] == target else []
    steps_of: dict[str, list[CountdownStep]] = {}
    for first, second in permutations(range(len(numbers)), 2):
        rest = [number for index, number in enumerate(numbers) if index not in (first, second)]
        for sign in "+-*/":
            value = value_of(numbers[first], sign, numbers[second])
            if value is not None:
                step = CountdownStep(numbers[first], sign, numbers[second], value)
                for tail in solutions([*rest, value], target):
                    steps_of.setdefault(steps_text([step, *tail]), [step, *tail])
    return list(steps_of.values())


def traces(problems: pl.DataFrame) -> list[list[str]]:
    """The expert: all solutions of each problem."""
    options = []
    for name, text in problems.select("problem", "details").iter_rows():
        details = json.loads(text or "{}")
        if not isinstance(details, dict) or not {"numbers", "target"} <= set(details):
            raise OffleashError(
                f"Problem {name!r} is not a {countdown.NAME} problem: its details have no numbers and target. "
                f"Generate some: offleash lab problems {countdown.NAME} --part train -o FILE."
            )
        options.append([steps_text(steps) for steps in solutions(details["numbers"], details["target"])])
    return options


def tokenizer() -> "PreTrainedTokenizerFast":
    """Numbers and marks, with or without white space between them."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*map(str, range(countdown.VALUE_LIMIT)), *SYMBOLS, END, PAD, UNKNOWN]
    word_tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=UNKNOWN))
    word_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(), pre_tokenizers.Punctuation()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=word_tokenizer, unk_token=UNKNOWN, pad_token=PAD, eos_token=END)


COUNTDOWN = LabWorld(
    name=countdown.NAME,
    about="four numbers, a target, three steps; often several correct solutions per problem",
    problems=countdown.generate,
    lines=lines,
    tokenizer=tokenizer,
    longest=18,
    context=64,
    traces=traces,
)
