"""A world: problems in three parts, a corpus to learn from, and the words and size of its model."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Line = tuple[str, str]  # a prompt, and what follows it


@dataclass(frozen=True)
class Shape:
    """The size of a model."""

    width: int = 64
    layers: int = 3
    heads: int = 2
    inner: int = 176  # a multiple of 16: matrix products of other widths take up to twice as long


@dataclass(frozen=True)
class World:
    """What is asked, what a base model learns it from, and how it is written."""

    name: str
    about: str
    problems: Callable[[str, int, int], pl.DataFrame]  # part, size, seed
    lines: Callable[[random.Random], Iterator[Line]]  # the corpus, of the part `train` alone; it never ends
    tokenizer: Callable[[], "PreTrainedTokenizerFast"]
    longest: int  # tokens of a sample, its end included
    context: int  # tokens that the model can read
    traces: Callable[[pl.DataFrame], Sequence[Sequence[str]]]  # correct answers to each problem, by an expert
    shape: Shape = Shape()
