"""Seeds: hashes, and numbers that are uniform, independent and a sample's own."""

import numpy as np
from scipy import stats

from offleash.samplers.seeds import chunk_seed, sample_seeds, seed_of, uniform


def test_a_samples_numbers_do_not_depend_on_its_chunk() -> None:
    whole = sample_seeds(17, 0, 1000)
    assert (sample_seeds(17, 600, 50) == whole[600:650]).all()
    assert (uniform(whole, 3)[600:650] == uniform(sample_seeds(17, 600, 50), 3)).all()


def test_neighbouring_seeds_share_no_samples() -> None:
    seeds = np.concatenate([sample_seeds(seed, 0, 2000) for seed in range(50)])
    assert len(np.unique(seeds)) == len(seeds)
    assert len({chunk_seed(seed, first, 8) for seed in range(50) for first in range(0, 800, 8)}) == 5000
    assert max(chunk_seed(seed, 0, 8) for seed in range(1000)) < 2**63


def test_numbers_are_uniform_over_samples_and_over_positions() -> None:
    seeds = sample_seeds(seed_of("run", "problem"), 0, 200_000)
    for numbers in (
        uniform(seeds, 0),
        uniform(seeds, 4095),
        np.array([uniform(seeds[:1], t)[0] for t in range(20_000)]),
    ):
        assert stats.kstest(numbers, "uniform").pvalue > 1e-3
        assert numbers.min() >= 0
        assert numbers.max() < 1


def test_numbers_of_neighbours_and_of_successive_positions_are_not_correlated() -> None:
    numbers = np.stack([uniform(sample_seeds(3, 0, 50_000), t) for t in range(4)], 1)
    for left, right in (
        (numbers[:-1, 0], numbers[1:, 0]),
        (numbers[:, 0], numbers[:, 1]),
        (numbers[:-1, 1], numbers[1:, 2]),
    ):
        assert abs(np.corrcoef(left, right)[0, 1]) < 5 / np.sqrt(len(left))


def test_parts_of_a_seed_cannot_run_together() -> None:
    assert seed_of("ab", "c") != seed_of("a", "bc")
    assert seed_of(1, 23) != seed_of(12, 3)
