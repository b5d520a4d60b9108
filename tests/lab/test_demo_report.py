"""What a demo says: the leash where it is significant, and that it is not where it is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from offleash.comparing.compare import Comparison
from offleash.lab.demo import DemoRuns, DemoSize
from offleash.lab.demo_report import headline, leash_parts, sentences
from offleash.training.loop import Training

K, N = 256, 150


def comparison(folder: Path, names: tuple[str, str], rates: tuple[np.ndarray, np.ndarray], seed: int) -> Comparison:
    """Two runs drawn from known rates."""
    rng, runs = np.random.default_rng(seed), []
    for name, rate in zip(names, rates, strict=True):
        correct = rng.binomial(K, rate)
        lines = ["problem,n,c", *(f"p{place},{K},{c}" for place, c in enumerate(correct))]
        (folder / f"{name}{seed}.csv").write_text("\n".join(lines))
        runs.append(replace(ol.load(folder / f"{name}{seed}.csv"), name=name))
    return ol.compare(*runs, replicates=500).comparison


def demonstrated(folder: Path, plain: Comparison, paper: Comparison) -> DemoRuns:
    trained = Training(folder, folder, 1, 0, 1.0, {})
    return DemoRuns("countdown", DemoSize(), folder, trained, plain, plain, paper, plain, plain, plain, 1.0)


@pytest.fixture
def base_P() -> np.ndarray:
    return np.random.default_rng(0).beta(0.4, 4, N)


def sharpened(rate_P: np.ndarray) -> np.ndarray:
    return np.where(rate_P > 0.02, np.minimum(1, 3 * rate_P), 0.0)


def test_the_leash_is_told_where_it_is(tmp_path: Path, base_P: np.ndarray) -> None:
    plain = comparison(tmp_path, ("base", "rl"), (base_P, sharpened(base_P)), 1)
    done = demonstrated(tmp_path, plain, plain)
    assert all(leash_parts(plain).values())
    assert headline(done).startswith("This run shows the leash")


def test_the_same_model_twice_shows_no_leash(tmp_path: Path, base_P: np.ndarray) -> None:
    same = comparison(tmp_path, ("base", "rl"), (base_P, base_P), 2)
    said = headline(demonstrated(tmp_path, same, same))
    assert "does not show the leash" in said
    assert "At the paper's decoding" not in said


def test_what_shows_at_the_other_decoding_alone_is_said(tmp_path: Path, base_P: np.ndarray) -> None:
    same = comparison(tmp_path, ("base", "rl"), (base_P, base_P), 2)
    leash = comparison(tmp_path, ("base", "rl"), (base_P, sharpened(base_P)), 1)
    said = headline(demonstrated(tmp_path, same, leash))
    assert "does not show the leash" in said
    assert "At the paper's decoding (temperature 0.6, top-p 0.95) it does." in said


def test_sentences_carry_the_numbers_of_the_comparison(tmp_path: Path, base_P: np.ndarray) -> None:
    plain = comparison(tmp_path, ("base", "rl"), (base_P, sharpened(base_P)), 1)
    first, _, losses, solutions, blend = sentences(demonstrated(tmp_path, plain, plain))
    again = plain.evidence.retest
    assert again is not None
    assert (
        f"shows {again.redraw_SRR:.0%} of what the other half reaches; RL shows {again.observed_SRR:.0%}" in solutions
    )
    assert again.redraw_SRR > again.observed_SRR
    assert f"pass@1 {plain.curves['before'].value_K[0]:.3f}" in first
    assert f"RL lost {plain.change.S:,.0f} and gained" in losses
    assert f"it loses {plain.change.S:,.0f}, RL {plain.change.S:,.0f}; pass@1" in blend
