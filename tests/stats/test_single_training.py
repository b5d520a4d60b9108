"""What one training seed leaves out: equivalent trainings that differ at random show significant losses.

OFFLEASH_TEST_FULL=1 python -m pytest -s tests/stats/test_single_training.py
"""

import numpy as np
import pytest

from offleash.comparing.sentences import NOISY_SHARES
from offleash.stats.significance import joint_confidence, losses_at_least

PROBLEMS, SAMPLES = 500, 256


def share_with_losses(studies: int, sd: float, seed: int = 0) -> float:
    """Studies whose bound on losses is above 0. The second training has the rates of the first but for a noise.

    Logits of the rates are Normal(-4, 2): a median rate of 2%. The noise has mean 0, so no training is the better one.
    """
    rng, shown = np.random.default_rng(seed), 0
    drawn_P2 = np.full((PROBLEMS, 2), SAMPLES)
    for _ in range(studies):
        logit_P = rng.normal(-4, 2, PROBLEMS)
        logit_P2 = np.stack([logit_P, logit_P + rng.normal(0, sd, PROBLEMS)], axis=1)
        correct_P2 = rng.binomial(SAMPLES, 1 / (1 + np.exp(-logit_P2)))
        shown += losses_at_least(drawn_P2, correct_P2, joint_confidence(2)) > 0
    return shown / studies


def test_equivalent_trainings_show_losses_that_equal_models_do_not() -> None:
    assert share_with_losses(15, sd=1.0) > 0.4
    assert share_with_losses(15, sd=0.0) <= 0.2


@pytest.mark.slow
def test_the_share_that_is_printed_was_measured() -> None:
    share = share_with_losses(400, sd=1.0)
    print(f"\nsignificant losses in {share:.1%} of 400 studies of one training each")
    assert share == pytest.approx(NOISY_SHARES[1], abs=0.05)
    assert share_with_losses(400, sd=0.0) <= 0.05
