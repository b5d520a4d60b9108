"""Even or odd: the word, whatever its case."""

WORDS = ("even", "odd")


def parity(extracted: str | None, gold: str) -> bool | None:
    """Is it the gold word? None, for unread, where it is neither word."""
    word = (extracted or "").strip(" .").lower()
    return word == gold.lower() if word in WORDS else None
