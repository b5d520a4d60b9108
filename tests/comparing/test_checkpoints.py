"""Checkpoints together: what several runs after the first reach, at k each and at k in all."""

from pathlib import Path

import numpy as np
import pytest

from offleash.comparing.checkpoints import _shares, union
from offleash.loading.load import load


def counts(path: Path, rows: list[tuple[str, int, int]]) -> str:
    path.write_text("problem,n,c\n" + "".join(f"{name},{n},{c}\n" for name, n, c in rows))
    return str(path)


def test_k_samples_in_all_are_k_samples(tmp_path: Path) -> None:
    before = counts(tmp_path / "base.csv", [("q", 3, 2), ("p", 3, 0)])
    after = counts(tmp_path / "step.csv", [("q", 3, 2), ("p", 3, 1)])
    found = union(load(before, f"a={after}", f"b={after}"))
    assert found.equal_k == pytest.approx((1, 7 / 9, 0, 2 / 9))  # two samples of one checkpoint and one of the other
    assert found.each_k == pytest.approx((1, 1, 0, 0))


@pytest.mark.parametrize(("k", "others"), [(5, 3), (5, 4), (7, 2), (8, 4), (2, 2)])
def test_samples_are_shared_out_evenly_in_every_turn(k: int, others: int) -> None:
    share = _shares(k, others)
    assert (share.sum(axis=1) == k).all()
    assert share.max() - share.min() <= 1
    assert np.allclose(share.mean(axis=0), k / others)
