"""VERIFIERS: every verifier by name. Adding one is a file and an entry here.

Names, revisions and steps are part of what verdicts are stored and cached under: change a revision when a verdict
changes, and never a name.
"""

from offleash.data.verdict import STORED_VERIFIER_NAMES
from offleash.errors import unknown
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
        quick=decide_exactly,
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
        quick=decide_steps,
    ),
    "program": Verifier(
        name="program",
        revision="2",  # 1: assertions could be forged, and time on the clock counted
        steps=("code", "program"),
        module="offleash.verifiers.program.decide",
        isolation=Isolation.ALONE,
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


def verifier(name: str) -> Verifier:
    """The verifier of that name, as users or run folders call it; an unknown one is an error with the nearest name."""
    stored = STORED_VERIFIER_NAMES.get(name, name)
    if stored not in VERIFIERS:
        raise unknown("verifier", name, [*VERIFIERS, *STORED_VERIFIER_NAMES])
    return VERIFIERS[stored]
