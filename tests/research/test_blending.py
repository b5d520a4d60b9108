"""The study of blending: its contrasts in a world whose answer is known."""

import json
from pathlib import Path

import numpy as np
import pytest

from research.blending import measure
from research.blending.assess import Block, Contrast, _corrected, contrasts
from research.blending.measure import file_of
from research.blending.plan import AGAIN, BASE, PLAIN, Cell, cells, steps_of

N, K = 60, 64


def test_every_cell_exists_once_and_the_first_are_those_of_the_main_question() -> None:
    every = list(cells())
    assert len({str(cell) for cell in every}) == len(every) == 248
    assert {steps_of(cell.model) for cell in every[2:37]} == {20, 40, 70, 120}


def rates(model: str, rng: np.random.Generator) -> np.ndarray:
    """Half of the problems are rare ones. A checkpoint of t steps loses t / 240 of them, a blend half as many as the
    checkpoint with its pass@1."""
    kind, _, rest = model.partition("-")
    if model in (BASE, AGAIN):
        moved, lost = 0.0, 0.0
    elif kind == "blend":
        steps, weight = rest.split("-")
        moved = float(steps) / 240 * float(weight)
        lost = moved / 2
    else:
        moved = (120 if kind == "hot" else float(rest)) / 240
        lost = moved
    rare = rng.permutation(N // 2) >= lost * N // 2
    return np.concatenate([np.full(N // 2, 0.1 + 0.5 * moved), 0.05 * rare])


def test_contrasts_find_what_the_world_was_made_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "CELLS", tmp_path)
    for cell in cells():
        if (cell.split, cell.decoding) == ("dev", PLAIN) and not cell.model.startswith("hot"):
            rate_P = rates(cell.model, np.random.default_rng(0 if cell.seed is None else cell.seed))
            file = file_of(cell)
            file.parent.mkdir(parents=True, exist_ok=True)
            correct = np.round(rate_P * K).astype(int).tolist()
            file.write_text(json.dumps({"drawn": [K] * N, "correct": correct}))
    every, missing = contrasts("dev", PLAIN, replicates=200)
    by_name = {contrast.name: contrast for contrast in every}
    assert missing == ["temperature"]
    assert by_name["stopping"].low > 0  # the line loses half as many
    assert by_name["half"].value == pytest.approx((0.5 - 0.125) / 2, abs=0.02)
    # of a problem in two the rate is linear along the line, of the others a blend keeps an eighth more than the chord
    assert by_name["concavity"].value == pytest.approx(0.5 * 0.05 * 0.125, abs=5e-4)
    with pytest.raises(KeyError):
        Block("test", PLAIN)[BASE]
    assert not file_of(Cell("test", PLAIN, None, BASE)).exists()


def test_holm_corrects_step_by_step() -> None:
    results = {name: (0.0, 0.0, 0.0, p) for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03))}
    corrected = {contrast.name: contrast.corrected for contrast in _corrected(results)}
    assert corrected == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert all(isinstance(contrast, Contrast) for contrast in _corrected(results))
