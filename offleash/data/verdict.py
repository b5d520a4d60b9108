"""A verdict: the four things a verifier can say about a sample. Without Polars, so that workers start fast."""

from enum import StrEnum

# What a verifier is stored as, where that is not what users call it: run folders keep the names they have.
STORED_VERIFIER_NAMES = {"model_judge": "referee"}


class Verdict(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    UNREAD = "unread"  # no answer was found in the text: not the same as a wrong one
    FAILED = "failed"  # the verifier timed out or crashed: says nothing of the model
