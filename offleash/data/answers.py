"""Answers: how often each answer was given to each problem, and what the verifier said of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integer = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Answers:
    """A distinct (problem, answer) pairs of one run: rows of the tally, codes shared by all runs, counts."""

    problem_A: Integer
    answer_A: Integer  # code of the answer's text; -1: no answer was found (unread)
    count_A: Integer
    correct_A: Flags
    wrong_A: Flags
    label: NDArray[np.str_]  # text of each code
