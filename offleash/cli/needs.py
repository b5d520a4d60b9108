"""What a verb needs beyond the core, said before it is missed."""

from importlib.util import find_spec

from offleash.errors import OffleashError


def needs_local(verb: str) -> None:
    """Refuse a verb that trains where the libraries for it are not installed."""
    lacking = [name for name in ("torch", "transformers", "yaml") if find_spec(name) is None]
    if lacking:
        raise OffleashError(
            f"offleash {verb} needs {lacking[0]}, which is not installed: pip install 'offleash[local]'."
        )
