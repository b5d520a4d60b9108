"""How much a test tries: `make test` is quick and repeatable, OFFLEASH_TEST_FULL=1 looks further."""

import os

FULL = bool(os.environ.get("OFFLEASH_TEST_FULL"))


def examples(full: int) -> int:
    """Examples of a property: all of them in full (`make test-slow`), a third in `make test`."""
    return full if FULL else full // 3
