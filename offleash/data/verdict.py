"""A verdict: the four things a verifier can say of a sample. No table library here: worker processes start fast."""

from enum import StrEnum


class Verdict(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    UNREAD = "unread"  # no answer was found in the text: not the same as a wrong one
    FAILED = "failed"  # the verifier timed out or crashed: says nothing of the model
