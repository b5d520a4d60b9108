"""FINGERPRINTS: every fingerprint by name. Adding one is a file beside this one and an entry here."""

from dataclasses import replace

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint
from offleash.errors import OffleashError, unknown
from offleash.plugins import entry_point_reference, plugin_names
from offleash.verifiers.verifier import Isolation

FINGERPRINTS: dict[str, Fingerprint] = {
    "countdown": Fingerprint(
        name="countdown",
        revision="1",
        module="offleash.analyses.strategies.fingerprints.countdown",
        about="the expression over the given numbers; order and grouping of sums and products are ignored",
        isolation=Isolation.IN_PROCESS,  # it parses arithmetic and runs nothing, so no worker is needed
    ),
    "steps": Fingerprint(
        name="steps",
        revision="1",
        module="offleash.analyses.strategies.fingerprints.steps",
        about="the equations of a text, substituted into each other; wording, order, units and notation are ignored",
    ),
    "program": Fingerprint(
        name="program",
        revision="3",
        module="offleash.analyses.strategies.fingerprints.program",
        about="the syntax tree of the last code block; names, comments, type hints and layout are ignored",
    ),
}
OWN_FUNCTION_MODULE = "offleash.plugins"  # loads users' functions in the worker
ENTRY_POINTS = "offleash.fingerprints"


def fingerprint(name: str) -> Fingerprint:
    """The fingerprint of that name, or one that calls a user's function.

    Args:
        name: a key of FINGERPRINTS, an entry point of an installed package, FILE.py:NAME or package.module:NAME.

    Returns:
        The fingerprint. A user's function is not loaded here: its revision is "0" until `with_revision` (read.py) has
        hashed its source in a worker.
    """
    if ":" not in name:
        if name in FINGERPRINTS:
            return FINGERPRINTS[name]
        reference = entry_point_reference(ENTRY_POINTS, name)
        if reference is None:
            error = unknown("fingerprint", name, [*FINGERPRINTS, *plugin_names(ENTRY_POINTS)])
            raise OffleashError(f"{error} To use your own function: --by FILE.py:NAME.")
        return replace(fingerprint(reference), name=name)
    file, _, function = name.rpartition(":")
    if not file or not function.isidentifier():
        raise OffleashError(
            f"--by takes FILE.py:NAME or package.module:NAME, where NAME is a function; found {name!r}."
        )
    return Fingerprint(
        name=f"own-{function}",
        revision="0",  # replaced by a hash of its source
        module=OWN_FUNCTION_MODULE,
        about=f"the function {function} of {file}",
        seconds=10.0,  # more than ours get: a user's first call may import a library
        function=name,
    )
