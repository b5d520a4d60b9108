"""Problems: what is asked, and the hash by which the same problem is known in two logs."""

from hashlib import blake2b

import polars as pl

PROBLEMS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "hash": pl.String(),  # of the question; null when the log keeps no text
    "question": pl.String(),
    "gold": pl.String(),
    "benchmark": pl.String(),
    "guess": pl.Float64(),  # chance that a blind guess is accepted
}


def question_hash(question: str) -> str:
    """Hash of a problem's text, blind to white space at its ends and to the kind of line endings."""
    text = question.replace("\r\n", "\n").strip()
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
