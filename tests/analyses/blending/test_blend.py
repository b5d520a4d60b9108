"""Blends are what torch computes, and folders that transformers loads."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from offleash.analyses.blending.blend import blend_models
from offleash.lab.pretrain import base_of

BASE = base_of("countdown")


@pytest.fixture(scope="module")
def rl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base with noise on every weight."""
    folder = tmp_path_factory.mktemp("models") / "rl"
    shutil.copytree(BASE, folder)
    generator = torch.Generator().manual_seed(0)
    weights = load_file(BASE / "model.safetensors")
    moved = {name: w + 0.05 * torch.randn(w.shape, generator=generator) for name, w in weights.items()}
    save_file(moved, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_blend_is_the_interpolation_that_torch_computes(rl: Path, tmp_path: Path) -> None:
    blend = load_file(blend_models(BASE, rl, 0.3, tmp_path / "blend") / "model.safetensors")
    base, after = load_file(BASE / "model.safetensors"), load_file(rl / "model.safetensors")
    assert blend.keys() == base.keys()
    assert all(torch.equal(blend[name], base[name] + 0.3 * (after[name] - base[name])) for name in base)


def test_weights_0_and_1_copy_the_models_bit_for_bit(rl: Path, tmp_path: Path) -> None:
    for weight, model in ((0.0, BASE), (1.0, rl)):
        copy = blend_models(BASE, rl, weight, tmp_path / f"{weight}")
        assert (copy / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
