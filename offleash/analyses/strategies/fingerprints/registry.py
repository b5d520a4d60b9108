"""FINGERPRINTS: every fingerprint by name, or a function of the user's own. Adding one is a file and a line here."""

from offleash.analyses.strategies.fingerprints.fingerprint import Fingerprint
from offleash.errors import OffleashError, unknown
from offleash.verifiers.verifier import Isolation

# FINGERPRINTS: every way to tell how a correct sample was solved, by name. Adding one is a file and an entry here.


FINGERPRINTS: dict[str, Fingerprint] = {
    "countdown": Fingerprint(
        name="countdown",
        revision="1",
        module="offleash.analyses.strategies.fingerprints.countdown",
        about="the expression over the given numbers; order and grouping of sums and products do not count",
        room=Isolation.HERE,
    ),
    "steps": Fingerprint(
        name="steps",
        revision="1",
        module="offleash.analyses.strategies.fingerprints.steps",
        about="the equations of a worked text put into each other; wording, order, units and notation do not count",
    ),
    "program": Fingerprint(
        name="program",
        revision="3",
        module="offleash.analyses.strategies.fingerprints.program",
        about="the syntax tree of the last block of code; names, comments, hints and layout do not count",
    ),
}
OWN = "offleash.plugins"


def fingerprint(name: str) -> Fingerprint:
    """The fingerprint of that name, or a function of the user's: FILE.py:NAME or package.module:NAME."""
    if ":" not in name:
        if name not in FINGERPRINTS:
            error = unknown("fingerprint", name, FINGERPRINTS)
            raise OffleashError(f"{error} A function of your own: --by FILE.py:NAME.")
        return FINGERPRINTS[name]
    place, _, function = name.rpartition(":")
    if not place or not function.isidentifier():
        raise OffleashError(f"--by takes FILE.py:NAME or package.module:NAME, found {name!r}; NAME is a function.")
    return Fingerprint(
        name=f"own-{function}",
        revision="0",  # its source is hashed where it is loaded
        module=OWN,
        about=f"the function {function} of {place}",
        seconds=10.0,
        function=name,
    )
