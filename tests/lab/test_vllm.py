"""The lab's base in vLLM: a model as any other."""

from pathlib import Path

import numpy as np
import pytest

import offleash as ol
from offleash.lab.pretrain import base_of


@pytest.mark.vllm
def test_vllm_draws_the_base_as_often_correct_as_transformers_does(tmp_path: Path) -> None:
    problems = ol.problem_set("countdown:dev", selection=ol.ProblemSelection(size=20))
    rates = []
    # by itself vLLM would turn the weights into bfloat16, for which not every CPU has the instructions
    own = {"gpu_memory_utilization": "0.3", "dtype": "float32"}
    for name, settings in (("vllm", own), ("hf", {})):
        model, decoding = f"{name}:{base_of('countdown')}", ol.Decoding(max_tokens=18)
        ol.draw(problems, model, k=64, out=tmp_path / name, decoding=decoding, engine=ol.EngineOptions(settings))
        ol.verify(tmp_path / name)
        tally = ol.tally({"base": ol.load(tmp_path / name)})
        rates.append(tally.correct_PR.sum() / tally.drawn_PR.sum())
    spread = np.sqrt(2 * rates[1] * (1 - rates[1]) / (20 * 64))
    assert abs(rates[0] - rates[1]) < 4 * spread
