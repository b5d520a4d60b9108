"""Text that a model or a log wrote, made harmless for where it is shown."""


def valid_utf8(text: str) -> str:
    """A text that every server and file takes: a lone surrogate, which a model can write, is no UTF-8."""
    return text.encode("utf-8", "replace").decode()


def clean(text: str) -> str:
    """Text on one line without control characters, terminal escapes or marks that turn the direction of writing."""
    return " ".join("".join(_clean_letter(letter) for letter in text).split())


def _clean_letter(letter: str) -> str:
    if letter.isspace():
        return " "
    return letter if letter.isprintable() else "\ufffd"
