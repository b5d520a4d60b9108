"""What a world consists of: problems in three splits, a corpus to pretrain on, the tokenizer and size of its model."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from offleash.errors import OffleashError

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
class Pretraining:
    """How a base model is pretrained."""

    steps: int = 1000
    lines: int = 256  # of the corpus per step: the batch size
    rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise OffleashError(f"rate must be a learning rate, such as 3e-3; found {self.rate}.")
        for name, least in (("steps", 1), ("lines", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise OffleashError(f"{name} must be {least} or more; found {getattr(self, name)}.")


@dataclass(frozen=True)
class LabWorld:
    """A family of problems, the corpus its base model is pretrained on, and its tokenizer."""

    name: str
    about: str
    problems: Callable[[str, int, int], pl.DataFrame]  # part, size, seed
    lines: Callable[[random.Random], Iterator[Line]]  # the corpus, from the split `train` only; endless
    tokenizer: Callable[[], "PreTrainedTokenizerFast"]
    longest: int  # tokens of a sample, its end included
    context: int  # tokens that the model can read
    traces: Callable[[pl.DataFrame], Sequence[Sequence[str]]]  # correct answers to each problem, by an expert
    shape: Shape = Shape()
    pretraining: Pretraining = Pretraining()
