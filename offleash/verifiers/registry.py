"""VERIFIERS: every verifier by name. Adding one is a file and an entry here; users' own come from verifiers/own/.

Names, revisions and steps are part of what verdicts are stored and cached under: change a revision when a verdict
changes, and never a name.
"""

from dataclasses import replace

from offleash.data.verdict import STORED_VERIFIER_NAMES
from offleash.errors import OffleashError, unknown
from offleash.plugins import entry_point_reference, is_reference, load_entry_point, plugin_names
from offleash.verifiers.countdown import decide_steps
from offleash.verifiers.math.exact import decide_exactly
from offleash.verifiers.verifier import Isolation, Verifier

VERIFIERS: dict[str, Verifier] = {
    "string": Verifier(
        name="string",
        revision="1",
        steps=("tag", "boxed", "hashes", "stated", "after_think", "whole"),
        module="offleash.verifiers.string",
    ),
    "choice": Verifier(
        name="choice",
        revision="1",
        steps=("tag", "boxed", "stated", "letter"),
        module="offleash.verifiers.choice",
    ),
    "number": Verifier(
        name="number",
        revision="1",
        steps=("tag", "boxed", "hashes", "stated", "concluded", "last_number"),
        module="offleash.verifiers.number.decide",
    ),
    "math": Verifier(
        name="math",
        revision="1",
        steps=("tag", "boxed", "hashes", "expression", "stated", "concluded", "formula"),
        module="offleash.verifiers.math.decide",
        isolation=Isolation.WORKER,
        seconds=2.5,
        library="math-verify",
        decide_inline=decide_exactly,
    ),
    "reasoning_gym": Verifier(
        name="reasoning_gym",
        revision="1",
        steps=("tag", "boxed", "after_think", "whole"),
        module="offleash.verifiers.reasoning_gym.decide",
        isolation=Isolation.SANDBOX,
        library="reasoning-gym",
        extra="gym",
    ),
    "countdown": Verifier(
        name="countdown",
        revision="1",
        steps=("tag", "boxed", "after_think", "whole"),
        module="offleash.verifiers.countdown",
        decide_inline=decide_steps,
    ),
    "program": Verifier(
        name="program",
        # 1: assertions could be forged, and time on the clock counted; 2: so could expected exceptions; 3: a second
        # function of the program's could judge the first
        revision="4",
        steps=("code", "program"),
        module="offleash.verifiers.program.decide",
        isolation=Isolation.FRESH_SANDBOX,
        seconds=9.0,
    ),
    "referee": Verifier(
        name="referee",
        revision="1",
        steps=("tag", "boxed", "stated", "after_think", "whole"),
        module="offleash.verifiers.model_judge",
        isolation=Isolation.REMOTE,
        seconds=60.0,
    ),
}


ENTRY_POINTS = "offleash.verifiers"


def verifier(name: str) -> Verifier:
    """The verifier of that name, as problems and run folders call it: ours, or one of an installed package.

    Never FILE.py:NAME: problems and run folders are data, and may come from someone else.
    """
    stored = STORED_VERIFIER_NAMES.get(name, name)
    if stored in VERIFIERS:
        return VERIFIERS[stored]
    plugin = load_entry_point(ENTRY_POINTS, name)
    if plugin is None:
        raise unknown("verifier", name, [*VERIFIERS, *STORED_VERIFIER_NAMES, *plugin_names(ENTRY_POINTS)])
    if isinstance(plugin, Verifier):
        return replace(plugin, name=name)
    from offleash.verifiers.own.bind import own_verifier

    reference = entry_point_reference(ENTRY_POINTS, name)
    assert reference is not None, "it was loaded"
    return own_verifier(reference, name)


def chosen_verifier(name: str) -> Verifier:
    """The verifier that a user chooses with --verifier: one by name, or their own function FILE.py:NAME."""
    if not is_reference(name):
        if name.endswith(".py"):
            raise OffleashError(f"{name} is a file. Name the function in it: --verifier {name}:FUNCTION.")
        return verifier(name)
    from offleash.verifiers.own.bind import own_verifier

    return own_verifier(name)
