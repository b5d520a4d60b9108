"""What one training seed leaves out: equivalent training runs that differ at random show significant losses.

OFFLEASH_TEST_FULL=1 python -m pytest -s tests/stats/test_single_training.py
"""

import numpy as np
import pytest

from offleash.comparing.sentences import NOISY_SHARES
from offleash.stats.significance import joint_confidence, losses_at_least

FEW, MANY, SAMPLES = 30, 500, 256


def share_with_losses(studies: int, sd: float, seed: int = 0, problems: int = MANY) -> float:
    """Studies whose bound on losses is above 0. The second training has the rates of the first but for a noise.

    Logits of the rates are Normal(-4, 2): a median rate of 2%. The noise has mean 0, so no training is the better one.
    """
    rng, shown = np.random.default_rng(seed), 0
    drawn_P2 = np.full((problems, 2), SAMPLES)
    for _ in range(studies):
        logit_P = rng.normal(-4, 2, problems)
        logit_P2 = np.stack([logit_P, logit_P + rng.normal(0, sd, problems)], axis=1)
        correct_P2 = rng.binomial(SAMPLES, 1 / (1 + np.exp(-logit_P2)))
        shown += losses_at_least(drawn_P2, correct_P2, joint_confidence(2)) > 0
    return shown / studies


def test_equivalent_trainings_show_losses_that_equal_models_do_not() -> None:
    assert share_with_losses(15, sd=1.0) > 0.4
    assert share_with_losses(15, sd=0.0) <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("problems", "printed"), [(FEW, NOISY_SHARES[0]), (MANY, NOISY_SHARES[1])])
def test_the_shares_that_are_printed_were_measured(problems: int, printed: float) -> None:
    share = share_with_losses(400, sd=1.0, problems=problems)
    print(f"\n{problems} problems: significant losses in {share:.1%} of 400 studies of one training each")
    assert round(share, 2) == printed
    assert share_with_losses(400, sd=0.0, problems=problems) <= 0.05
