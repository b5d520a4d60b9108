"""The chain_sum world: Reasoning Gym's sums and differences of two or three numbers. One answer is correct.

Digits are tokens, and so are the words of the library's question. The corpus imitates web text: questions with answers,
one in five of which is off by one in one of its digits. A problem's split is a hash of its signed terms, whatever their
order: `train` holds no sum of `dev` or `test`, not even with its terms reordered.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.data.reasoning_gym import encode_value
from offleash.data.tables import as_problems
from offleash.errors import OffleashError, unknown
from offleash.lab.world import LabWorld, Line, Pretraining
from offleash.problems.countdown import SPLITS, split_of_text
from offleash.problems.reasoning_gym import SEED_STRIDE, library_seed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

NAME = "chain_sum"
TERM_COUNTS, DIGITS = (2, 3), (2, 2)  # minimum and maximum
# the library's names for them; it asks for no negative numbers, though answers can be
SETTINGS: Mapping[str, int | bool] = {
    "min_terms": TERM_COUNTS[0],
    "max_terms": TERM_COUNTS[1],
    "min_digits": DIGITS[0],
    "max_digits": DIGITS[1],
    "allow_negation": False,
}
ERROR_SHARE = 0.2  # share of lines that have one
PROMPT_OPENING = "State the final answer to the following arithmetic problem"
# every piece of a text is a token, the space before a word within it: together they are the text again
TOKEN_PATTERN = r" ?[A-Za-z]+| [+=-]|[0-9 :-]"
END, PAD, UNKNOWN = "<end>", "<pad>", "<unk>"

Terms = tuple[int, ...]  # signed; the first is positive


def split_of(terms: Terms) -> str:
    """The split that signed terms belong to: train, dev or test."""
    return split_of_text(" ".join(map(str, sorted(terms))))


def question(terms: Terms) -> str:
    """The question as the library words it."""
    rest = "".join(f" {'-' if term < 0 else '+'} {abs(term)}" for term in terms[1:])
    return f"{PROMPT_OPENING}: {terms[0]}{rest} ="


def generate(part: str, size: int, seed: int) -> pl.DataFrame:
    """`size` distinct problems of the library; a longer set of the same seed begins with the shorter one."""
    if part not in SPLITS:
        raise unknown(f"{NAME} split", part, SPLITS)
    if seed < 0:  # the library's generator drops the sign: -1 would draw what 1 draws
        raise OffleashError(f"The seed of {NAME} must be 0 or more; found {seed}.")
    rows = [_row(*terms) for _, terms in zip(range(size), _distinct(part, seed), strict=False)]
    if len(rows) < size:
        raise OffleashError(f"{NAME}:{part} has only {len(rows)} distinct problems. Use --size {len(rows)} or less.")
    return as_problems(pl.DataFrame(rows))


def guess(terms: Terms) -> float:
    """The chance that another question with as many terms of as many digits has the same answer."""
    share_V = _shares(len(terms), len(str(terms[0])))
    return float(share_V[sum(terms) + len(share_V) // 2])


def lines(rng: random.Random) -> Iterator[Line]:
    """Questions of the split `train` with answers, distributed as in the library."""
    while True:
        count, numbers = rng.randint(*TERM_COUNTS), _numbers(rng.randint(*DIGITS))
        terms = (rng.choice(numbers), *(rng.choice((1, -1)) * rng.choice(numbers) for _ in range(count - 1)))
        if split_of(terms) == "train":
            answer = sum(terms)
            yield question(terms), str(_wrong_answer(answer, rng) if rng.random() < ERROR_SHARE else answer)


def traces(problems: pl.DataFrame) -> Sequence[Sequence[str]]:
    """The expert: the one correct answer to each problem."""
    return [[gold] for gold in problems["gold"]]


def tokenizer() -> "PreTrainedTokenizerFast":
    """Words, signs and single digits; every text made of these round-trips exactly."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    first, *other_words = PROMPT_OPENING.split(" ")
    words = dict.fromkeys([*"0123456789- :", " +", " -", " =", first, *(f" {word}" for word in other_words)])
    vocabulary = {word: index for index, word in enumerate([*words, END, PAD, UNKNOWN])}
    word_tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    word_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN_PATTERN), "isolated")
    word_tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=word_tokenizer, unk_token=UNKNOWN, pad_token=PAD, eos_token=END)


def _numbers(digits: int) -> range:
    return range(10 ** (digits - 1), 10**digits)


@cache
def _shares(terms: int, digits: int) -> NDArray[np.float64]:
    """The share of questions of a form that have each answer, from the smallest to the largest answer."""
    largest = 10**digits - 1
    first_share_V = np.zeros(2 * largest + 1)
    first_share_V[largest + np.array(_numbers(digits))] = 1 / len(_numbers(digits))
    share_V = first_share_V
    for _ in range(terms - 1):
        share_V = np.convolve(share_V, (first_share_V + first_share_V[::-1]) / 2)
    return share_V


def _wrong_answer(answer: int, rng: random.Random) -> int:
    """A carry too many or a forgotten one, at a random digit."""
    index = rng.randrange(len(str(abs(answer))))
    return answer + rng.choice((1, -1)) * int(10**index)


def _distinct(part: str, seed: int) -> Iterator[tuple[Terms, Mapping[str, Any]]]:
    """Items of the library that belong to a split and differ in their terms."""
    try:
        from reasoning_gym.arithmetic.chain_sum import ChainSumConfig, ChainSumDataset
    except ModuleNotFoundError as missing:
        raise OffleashError(
            f"{NAME} needs the module {missing.name!r}, which is not installed: pip install 'offleash[gym]'."
        ) from missing
    dataset = ChainSumDataset(ChainSumConfig(seed=library_seed(seed, 0), size=SEED_STRIDE, **SETTINGS))
    seen = set[Terms]()
    for index in range(SEED_STRIDE):
        item = dataset[index]
        terms = tuple(map(int, item["metadata"]["expression"].replace("- ", "-").replace("+ ", "").split(" ")))
        key = tuple(sorted(terms))
        if split_of(terms) == part and key not in seen:
            seen.add(key)
            yield terms, item


def _row(terms: Terms, item: Mapping[str, Any]) -> dict[str, str | float]:
    return {
        "problem": f"{NAME}{''.join(f'{term:+}' for term in terms)}",
        "question": item["question"],
        "prompt": item["question"],
        "gold": item["answer"],
        "benchmark": NAME,
        "guess": guess(terms),
        "verifier": "string",  # as strict as the library's own scorer, without a process around it
        "details": json.dumps(
            {"task": NAME, "config": dict(SETTINGS), "entry": encode_value(dict(item))}, sort_keys=True
        ),
    }


CHAIN_SUM = LabWorld(
    name=NAME,
    about="sums and differences of two or three numbers, from Reasoning Gym; one correct answer per problem",
    problems=generate,
    lines=lines,
    tokenizer=tokenizer,
    longest=5,
    context=40,
    traces=traces,
    pretraining=Pretraining(steps=4000, lines=64, rate=2e-3),
)
