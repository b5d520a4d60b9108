"""A blend of a base and a LoRA adapter, merged by peft, is the blend of the base and the merged model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from offleash.analyses.blending.blend import RECORD, blend_models, write_blends
from offleash.errors import OffleashError
from offleash.lab.pretrain import base_of

BASE = base_of("countdown")
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def adapter(folder: Path, base: Path = BASE, **options: Any) -> Path:
    """An adapter whose every trained number is random."""
    settings: dict[str, Any] = {"r": 2, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], **options}
    network = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn_like(parameter)
    network.save_pretrained(str(folder))
    return folder


def merged(base: Path, folder: Path) -> dict[str, torch.Tensor]:
    network = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), folder).merge_and_unload()
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True, "target_modules": ["q_proj", "embed_tokens"]},
        {"modules_to_save": ["norm"]},
    ],
    ids=["plain", "rslora and embeddings", "modules_to_save"],
)
@pytest.mark.filterwarnings("ignore")  # peft on tied embeddings
def test_the_merged_blend_is_the_blend_of_the_merged_models(options: dict[str, Any], tmp_path: Path) -> None:
    after = adapter(tmp_path / "adapter", **options)
    first, last = AutoModelForCausalLM.from_pretrained(BASE).state_dict(), merged(BASE, after)
    half = merged(BASE, blend_models(BASE, after, 0.25, tmp_path / "blend"))
    assert half.keys() == last.keys()
    for name, tensor in half.items():
        assert torch.allclose(tensor, first[name] + 0.25 * (last[name] - first[name]), atol=1e-6), name


def test_at_0_and_1_an_adapter_is_none_and_itself(tmp_path: Path) -> None:
    after = adapter(tmp_path / "adapter", modules_to_save=["norm"])
    none = blend_models(BASE, after, 0.0, tmp_path / "0")
    base = AutoModelForCausalLM.from_pretrained(BASE).state_dict()
    assert all(torch.equal(tensor, base[name]) for name, tensor in merged(BASE, none).items())
    same = blend_models(BASE, after, 1.0, tmp_path / "1")
    assert (same / WEIGHTS).read_bytes() == (after / WEIGHTS).read_bytes()


def test_trained_biases_are_interpolated_with_those_of_the_base(tmp_path: Path) -> None:
    """The countdown base has no biases: one stands for them here."""
    after, folder = adapter(tmp_path / "adapter"), tmp_path / "base"
    shutil.copytree(BASE, folder)
    for file, name in ((folder / "model.safetensors", ""), (after / WEIGHTS, "base_model.model.")):
        bias = f"{name}model.layers.0.self_attn.q_proj{'.base_layer' if name else ''}.bias"
        value = torch.full((64,), 4.0 if name else 1.0)
        save_file(load_file(file) | {bias: value}, file, metadata={"format": "pt"})
    settings = json.loads((after / CONFIG).read_text())
    (after / CONFIG).write_text(json.dumps(settings | {"base_model_name_or_path": str(folder), "bias": "lora_only"}))
    blend = load_file(blend_models(folder, after, 0.5, tmp_path / "blend") / WEIGHTS)
    assert (blend["base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias"] == 2.5).all()


def test_the_sampler_draws_from_a_blended_adapter(tmp_path: Path) -> None:
    from offleash.samplers.huggingface.loading import load, settings_of
    from offleash.samplers.registry import model_of

    blends = write_blends(str(BASE), str(adapter(tmp_path / "adapter")), [0.5], tmp_path / "blends")
    assert blends.models[0].model == f"hf:{BASE}+{tmp_path}/blends/0.5"
    assert json.loads((tmp_path / "blends/0.5" / RECORD).read_text())["kind"] == "adapter"
    loaded = model_of(blends.models[0].model)
    assert load(loaded, settings_of(loaded)).model is not None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"use_dora": True}, "DoRA normalises"),
        ({"peft_type": "IA3"}, "only LoRA can be blended"),
        ({"init_lora_weights": "pissa"}, "changed the base's weights"),
    ],
)
def test_adapters_that_do_more_than_add_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    after = adapter(tmp_path / "adapter")
    settings = json.loads((after / CONFIG).read_text())
    (after / CONFIG).write_text(json.dumps(settings | changed))
    with pytest.raises(OffleashError, match=message):
        blend_models(BASE, after, 0.5, tmp_path / "blend")


def test_an_adapter_for_another_base_is_refused_by_weights_and_by_shape(tmp_path: Path) -> None:
    after, other = adapter(tmp_path / "adapter"), tmp_path / "other"
    shutil.copytree(BASE, other)
    weights = load_file(other / "model.safetensors")
    save_file({n: t + 1 for n, t in weights.items()}, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(OffleashError, match="has other weights"):
        blend_models(other, after, 0.5, tmp_path / "blend")
    settings = json.loads((after / CONFIG).read_text())
    (after / CONFIG).write_text(json.dumps(settings | {"base_model_name_or_path": "org/not-here"}))
    notes = json.loads((blend_models(other, after, 0.5, tmp_path / "blend") / RECORD).read_text())["notes"]
    assert "org/not-here" in notes[0]  # same shapes: nothing shows that it is another
    tensors = load_file(after / WEIGHTS)
    name = next(name for name in tensors if "lora_A" in name)
    save_file(tensors | {name: torch.zeros(2, 65)}, after / WEIGHTS)
    with pytest.raises(OffleashError, match="adapter for another base"):
        blend_models(other, after, 0.5, tmp_path / "blend2")


def test_an_adapter_as_base_is_refused(tmp_path: Path) -> None:
    after = adapter(tmp_path / "adapter")
    with pytest.raises(OffleashError, match="is an adapter"):
        blend_models(after, BASE, 0.5, tmp_path / "blend")
