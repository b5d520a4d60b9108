"""A verdict: the four things a verifier can say about a sample. Without Polars, so that workers start fast."""

from enum import StrEnum


class Verdict(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    UNREAD = "unread"  # no answer was found in the text: not the same as a wrong one
    FAILED = "failed"  # the verifier timed out or crashed: says nothing of the model
