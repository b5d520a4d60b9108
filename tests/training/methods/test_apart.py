"""Which tokens a loss treats apart: by entropy, by covariance, never behind the end of a sample."""

import numpy as np
import pytest

from offleash.training.method import Loss, TokenSelection
from offleash.training.update import covariance, select_tokens


def test_the_share_with_the_highest_entropy_is_chosen_among_real_tokens() -> None:
    entropy_NT = np.array([[0.1, 0.9, 5.0], [0.8, 0.2, 0.3]])
    token_mask_NT = np.array([[True, True, False], [True, True, True]])
    chosen_NT = select_tokens(
        Loss(chosen=TokenSelection.TOP_ENTROPY, share=0.4),
        0 * entropy_NT,
        entropy_NT,
        entropy_NT,
        token_mask_NT,
        seed=0,
    )
    assert chosen_NT.tolist() == [[False, True, False], [True, False, False]]


def test_what_tokens_bring_to_the_covariance_averages_to_it() -> None:
    rng = np.random.default_rng(2)
    logprob_NT, advantage_NT, token_mask_NT = rng.normal(size=(5, 8)), rng.normal(size=(5, 8)), rng.random((5, 8)) < 0.7
    brought = covariance(logprob_NT, advantage_NT, token_mask_NT)[token_mask_NT].mean()
    assert brought == pytest.approx(np.cov(logprob_NT[token_mask_NT], advantage_NT[token_mask_NT], bias=True)[0, 1])


def test_kl_cov_chooses_the_most_covarying_tokens_and_clip_cov_some_of_a_band() -> None:
    rng = np.random.default_rng(2)
    logprob_NT, advantage_NT, token_mask_NT = rng.normal(size=(9, 8)), rng.normal(size=(9, 8)), rng.random((9, 8)) < 0.7
    brought_NT = covariance(logprob_NT, advantage_NT, token_mask_NT)
    top = Loss(chosen=TokenSelection.KL_COV, share=0.1)
    chosen_NT = select_tokens(top, logprob_NT, 0 * logprob_NT, advantage_NT, token_mask_NT, seed=0)
    assert chosen_NT.sum() == round(0.1 * token_mask_NT.sum())
    assert brought_NT[chosen_NT].min() >= np.sort(brought_NT[token_mask_NT])[-chosen_NT.sum()]
    band = Loss(chosen=TokenSelection.CLIP_COV, share=0.1, band=(0.2, 2.0))
    first, again, other = (
        select_tokens(band, logprob_NT, 0 * logprob_NT, advantage_NT, token_mask_NT, seed=seed) for seed in (0, 0, 1)
    )
    assert first.sum() == round(0.1 * token_mask_NT.sum())
    assert ((brought_NT[first] >= 0.2) & (brought_NT[first] <= 2.0)).all()
    assert not (first & ~token_mask_NT).any()
    assert (first == again).all()
    assert (first != other).any()


def test_a_band_that_no_token_is_in_leaves_all_tokens_alone() -> None:
    loss = Loss(chosen=TokenSelection.CLIP_COV, share=0.5, band=(1e6, 1e7))
    ones = np.ones((2, 3))
    assert not select_tokens(loss, ones, ones, ones, ones > 0, seed=0).any()
