"""A verifier that tells which modules its process has loaded."""

import sys

from offleash.data.verdict import Verdict
from offleash.verifiers.verifier import Case, Judgement


def decide(case: Case) -> Judgement:
    return Judgement(Verdict.CORRECT, " ".join(sorted({name.partition(".")[0] for name in sys.modules})))
