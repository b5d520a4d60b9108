"""The lab's base, and a blend of it, in vLLM: models as any other."""

from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from offleash.lab.pretrain import base_of


def rates_of(model: Path, tmp_path: Path) -> list[float]:
    """How often vLLM and transformers draw a correct sample of 20 problems, 64 samples each."""
    problems = ol.problem_set("countdown:dev", selection=ol.ProblemSelection(size=20))
    rates = []
    # by itself vLLM would turn the weights into bfloat16, for which not every CPU has the instructions
    own = {"gpu_memory_utilization": "0.3", "dtype": "float32"}
    for name, settings in (("vllm", own), ("hf", {})):
        decoding, engine = ol.Decoding(max_tokens=18), ol.EngineOptions(settings)
        ol.draw(problems, f"{name}:{model}", k=64, out=tmp_path / name, decoding=decoding, engine=engine)
        ol.verify(tmp_path / name)
        tally = ol.tally({"base": ol.load(tmp_path / name)})
        rates.append(float(tally.correct_PR.sum() / tally.drawn_PR.sum()))
    return rates


@pytest.mark.vllm
def test_vllm_draws_the_base_as_often_correct_as_transformers_does(tmp_path: Path) -> None:
    rates = rates_of(base_of("countdown"), tmp_path)
    assert abs(rates[0] - rates[1]) < 4 * np.sqrt(2 * rates[1] * (1 - rates[1]) / (20 * 64))


@pytest.mark.vllm
def test_vllm_draws_a_blend_as_often_correct_as_transformers_does(tmp_path: Path) -> None:
    """Base and a model that was not trained: a blend near the base solves fewer problems than it, but some."""
    untrained = ol.lab_pretrain("countdown", steps=1, out=tmp_path / "untrained")
    blends = ol.blend(base_of("countdown"), untrained.to_dict()["model"], weights=0.1, out=tmp_path / "blends")
    rates = rates_of(blends.models[0].folder, tmp_path)
    assert rates[1] > 0.01
    assert abs(rates[0] - rates[1]) < 4 * np.sqrt(2 * rates[1] * (1 - rates[1]) / (20 * 64))
