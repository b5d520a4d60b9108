"""Blends are what torch computes, folders that transformers loads, and there as a whole or not at all."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from offleash.analyses.blending.blend import RECORD, blend_models, write_blends
from offleash.analyses.blending.tensors import INDEX
from offleash.errors import OffleashError
from offleash.lab.pretrain import base_of

BASE = base_of("countdown")
WEIGHTS = "model.safetensors"
Tensors = Mapping[str, torch.Tensor]


def noisy(tensors: Tensors, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: (t + 0.05 * torch.randn(t.shape, generator=generator)).to(t.dtype) for name, t in tensors.items()}


def model(folder: Path, tensors: Tensors, config: Mapping[str, Any] | None = None, shards: int = 1) -> Path:
    """A model folder with the tokenizer of the countdown base and these tensors."""
    shutil.copytree(BASE, folder)
    (folder / WEIGHTS).unlink()
    stored = json.loads((BASE / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stored | dict(config or {})))
    names = sorted(tensors)
    parts = [names[part::shards] for part in range(shards)]
    files = [WEIGHTS] if shards == 1 else [f"model-{n + 1:05d}-of-{shards:05d}.safetensors" for n in range(shards)]
    for file, part in zip(files, parts, strict=True):
        save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
    if shards > 1:
        places = {name: file for file, part in zip(files, parts, strict=True) for name in part}
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


@pytest.fixture(scope="module")
def base_tensors() -> Tensors:
    return load_file(BASE / WEIGHTS)


@pytest.fixture
def rl(base_tensors: Tensors, tmp_path: Path) -> Path:
    return model(tmp_path / "rl", noisy(base_tensors))


def refused(base: Path, after: Path, tmp_path: Path) -> str:
    """What is said of two models that cannot be blended; nothing is left on disk."""
    with pytest.raises(OffleashError) as error:
        blend_models(base, after, 0.5, tmp_path / "out" / "blend")
    assert not (tmp_path / "out").exists()
    return str(error.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_a_blend_is_the_interpolation_that_torch_computes(dtype: torch.dtype, weight: float, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    # magnitudes over the whole range of float16, subnormals among them, an infinity and equal numbers
    exponents = torch.randint(-26, 15, (300, 50), generator=generator)
    first = (torch.randn(300, 50, generator=generator, dtype=torch.float64) * 2.0**exponents).to(dtype)
    second = (first.double() * (1 + torch.randn(300, 50, generator=generator, dtype=torch.float64))).to(dtype)
    second[:10] = first[:10]
    first[0, 0] = second[0, 0] = -torch.inf
    base, after = model(tmp_path / "base", {"w": first}), model(tmp_path / "rl", {"w": second})
    blend = load_file(blend_models(base, after, weight, tmp_path / "blend") / WEIGHTS)["w"]
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    a, b = first.to(kind), second.to(kind)
    expected = torch.where(a == b, a, a + weight * (b - a)).to(dtype)
    assert blend.dtype == dtype
    assert torch.equal(blend, expected)


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float32, torch.float64, torch.float64),
    ],
)
def test_of_two_dtypes_the_wider_is_stored(
    before: torch.dtype, after: torch.dtype, wider: torch.dtype, base_tensors: Tensors, tmp_path: Path
) -> None:
    first = {name: t.to(before) for name, t in base_tensors.items()}
    second = {name: t.to(after) for name, t in noisy(base_tensors).items()}
    folder = blend_models(model(tmp_path / "base", first), model(tmp_path / "rl", second), 0.25, tmp_path / "blend")
    blend = load_file(folder / WEIGHTS)
    for name, tensor in blend.items():
        a, b = first[name].to(wider), second[name].to(wider)
        assert torch.equal(tensor, a + 0.25 * (b - a))
    assert json.loads((folder / "config.json").read_text())["dtype"] == str(wider).removeprefix("torch.")


def test_weights_0_and_1_copy_the_models_bit_for_bit(rl: Path, base_tensors: Tensors, tmp_path: Path) -> None:
    sharded = model(tmp_path / "sharded", noisy(base_tensors, seed=1), shards=3)
    for weight, source in ((0.0, sharded), (1.0, rl)):
        copy = blend_models(sharded, rl, weight, tmp_path / f"{weight}")
        names = {file.name for file in source.iterdir()}
        assert {file.name for file in copy.iterdir()} == names | {RECORD}
        assert all((copy / name).read_bytes() == (source / name).read_bytes() for name in names)


def test_sharded_models_are_blended_whatever_the_shards(base_tensors: Tensors, rl: Path, tmp_path: Path) -> None:
    base = model(tmp_path / "base", base_tensors, shards=2)
    after = model(tmp_path / "sharded", load_file(rl / WEIGHTS), shards=3)
    folder = blend_models(base, after, 0.5, tmp_path / "blend")
    places = json.loads((folder / INDEX).read_text())["weight_map"]
    assert places == json.loads((after / INDEX).read_text())["weight_map"]
    plain = load_file(blend_models(BASE, rl, 0.5, tmp_path / "plain") / WEIGHTS)
    for name, file in places.items():
        assert torch.equal(load_file(folder / file)[name], plain[name])


def test_transformers_loads_a_blend_and_its_tokenizer(rl: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = blend_models(BASE, rl, 0.5, tmp_path / "blend")
    network = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = load_file(folder / WEIGHTS)["model.embed_tokens.weight"]
    assert torch.equal(network.get_input_embeddings().weight, expected)
    assert torch.isfinite(network(**tokenizer("1 , 2", return_tensors="pt")).logits).all()


def test_the_record_says_what_a_blend_is_made_of(rl: Path, tmp_path: Path) -> None:
    record = json.loads((blend_models(BASE, rl, 0.5, tmp_path / "blend") / RECORD).read_text())
    assert (record["base"], record["rl"], record["weight"]) == (str(BASE), str(rl), 0.5)
    assert record["dtypes"] == {"F32": 29}
    assert list(record["files"]) == [WEIGHTS]


def test_existing_blends_are_kept_and_other_folders_are_refused(rl: Path, tmp_path: Path) -> None:
    first = write_blends(str(BASE), str(rl), [0.5], tmp_path / "blends")
    stamp = (tmp_path / "blends" / "0.5" / WEIGHTS).stat().st_mtime_ns
    again = write_blends(str(BASE), f"after={rl}", [0.5, 0.75], tmp_path / "blends")
    assert [model.new for model in (*first.models, *again.models)] == [True, False, True]
    assert again.labels[1] == "after"
    assert (tmp_path / "blends" / "0.5" / WEIGHTS).stat().st_mtime_ns == stamp
    with pytest.raises(OffleashError, match="holds another blend"):
        write_blends(str(rl), str(BASE), [0.5], tmp_path / "blends")
    (tmp_path / "blends" / "0.25").mkdir()
    with pytest.raises(OffleashError, match="is not a blend"):
        write_blends(str(BASE), str(rl), [0.25], tmp_path / "blends")


def test_a_kill_leaves_no_half_blend(tmp_path: Path) -> None:
    large = {"w": torch.zeros(1 << 25, dtype=torch.bfloat16)}  # 64 MB: long enough to be caught in the middle
    base, after = model(tmp_path / "base", large), model(tmp_path / "rl", {"w": large["w"] + 1})
    out = tmp_path / "blends"
    command = [sys.executable, "-m", "offleash", "blend", str(base), str(after), "--weights", "0.5", "-o", str(out)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while not list(out.glob(".writing-0.5/*.safetensors")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not (out / "0.5").exists():  # else it was too fast to be killed
        assert [file.name for file in out.iterdir()] == [".writing-0.5"]
    write_blends(str(base), str(after), [0.5], out)
    assert [file.name for file in out.iterdir()] == ["0.5"]
    assert (load_file(out / "0.5" / WEIGHTS)["w"] == 0.5).all()


# What is refused, each with the first difference.


def test_weights_outside_the_two_models_need_a_word(rl: Path, tmp_path: Path) -> None:
    for weight in (-0.5, 1.5, float("nan")):
        with pytest.raises(OffleashError, match=r"outside of \[0, 1\]|must be a number"):
            write_blends(str(BASE), str(rl), [weight], tmp_path / "blends")
    write_blends(str(BASE), str(rl), [1.5], tmp_path / "blends", extrapolate=True)
    base, after = load_file(BASE / WEIGHTS), load_file(rl / WEIGHTS)
    blend = load_file(tmp_path / "blends" / "1.5" / WEIGHTS)
    assert all(torch.equal(blend[name], base[name] + 1.5 * (after[name] - base[name])) for name in base)


def test_extrapolation_beyond_the_range_of_the_dtype_is_refused(tmp_path: Path) -> None:
    base = model(tmp_path / "base", {"w": torch.zeros(4, dtype=torch.float16)})
    after = model(tmp_path / "rl", {"w": torch.full((4,), 6e4, dtype=torch.float16)})
    with pytest.raises(OffleashError, match="w leaves the range of F16 at the weight 2"):
        blend_models(base, after, 2.0, tmp_path / "blend")
    assert not list(tmp_path.glob("*blend*"))


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("model.norm.weight", None, "Only the base has model.norm.weight"),
        ("extra.weight", torch.zeros(2), "Only RL has extra.weight"),
        ("model.norm.weight", torch.zeros(65), "model.norm.weight is [64] in the base and [65] in RL"),
        ("model.norm.weight", torch.zeros(64, dtype=torch.int64), "holds integers"),
        ("model.norm.weight", torch.zeros(64, dtype=torch.float8_e4m3fn), "quantised checkpoint"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    name: str, tensor: torch.Tensor | None, message: str, base_tensors: Tensors, tmp_path: Path
) -> None:
    others = {other: kept for other, kept in base_tensors.items() if other != name}
    after = model(tmp_path / "rl", others if tensor is None else others | {name: tensor})
    assert message in refused(BASE, after, tmp_path)


def test_equal_integers_are_kept_and_different_ones_refused(tmp_path: Path) -> None:
    tensors = {"w": torch.zeros(3), "steps": torch.arange(5)}
    base, after = model(tmp_path / "base", tensors), model(tmp_path / "rl", tensors | {"w": torch.ones(3)})
    blend = load_file(blend_models(base, after, 0.5, tmp_path / "blend") / WEIGHTS)
    assert torch.equal(blend["steps"], torch.arange(5))
    assert "integers" in refused(base, model(tmp_path / "other", tensors | {"steps": torch.ones(5).long()}), tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_attention_heads": 4}, "num_attention_heads is 2 in the base and 4 in RL"),
        ({"model_type": "qwen2"}, "model_type is 'llama' in the base and 'qwen2' in RL"),
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, "different position embeddings"),
        ({"quantization_config": {"quant_method": "gptq"}}, "RL is quantised (gptq)"),
    ],
)
def test_configs_of_other_architectures_are_refused(
    config: Mapping[str, Any], message: str, base_tensors: Tensors, tmp_path: Path
) -> None:
    assert message in refused(BASE, model(tmp_path / "rl", base_tensors, config), tmp_path)


def test_a_config_of_another_version_of_transformers_is_the_same_config(base_tensors: Tensors, tmp_path: Path) -> None:
    older = model(tmp_path / "base", base_tensors)
    config = json.loads((older / "config.json").read_text())
    theta = config.pop("rope_parameters")["rope_theta"]
    config |= {
        "rope_theta": theta,
        "rope_scaling": None,
        "torch_dtype": config.pop("dtype"),
        "transformers_version": "4",
    }
    (older / "config.json").write_text(json.dumps(config))
    assert (blend_models(older, model(tmp_path / "rl", base_tensors), 0.5, tmp_path / "blend") / WEIGHTS).is_file()


def test_another_vocabulary_is_refused_by_its_first_token(rl: Path, tmp_path: Path) -> None:
    tokenizer = json.loads((rl / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    swapped = {vocabulary[name]: name for name in vocabulary}
    vocabulary[swapped[3]], vocabulary[swapped[4]] = 4, 3
    (rl / "tokenizer.json").write_text(json.dumps(tokenizer))
    said = refused(BASE, rl, tmp_path)
    assert f"{swapped[3]!r} (3) in the base and {swapped[4]!r} (3) in RL" in said


def test_a_checkpoint_without_a_tokenizer_gets_that_of_the_base(rl: Path, tmp_path: Path) -> None:
    for file in rl.glob("tokenizer*"):
        file.unlink()
    folder = blend_models(BASE, rl, 0.5, tmp_path / "blend")
    assert (folder / "tokenizer.json").read_bytes() == (BASE / "tokenizer.json").read_bytes()
    assert "that of the base is used" in json.loads((folder / RECORD).read_text())["notes"][0]


@pytest.mark.parametrize("whose", ["base", "rl"])
def test_a_head_that_one_model_ties_and_the_other_stores_is_blended_with_the_embeddings(
    whose: str, base_tensors: Tensors, tmp_path: Path
) -> None:
    embedding, head = "model.embed_tokens.weight", "lm_head.weight"
    tied, untied = dict(base_tensors), noisy(base_tensors)
    untied[head] = untied[embedding] + 1
    parts = {"tied": model(tmp_path / "tied", tied)}
    parts["untied"] = model(tmp_path / "untied", untied, {"tie_word_embeddings": False})
    base, after = (parts["untied"], parts["tied"]) if whose == "base" else (parts["tied"], parts["untied"])
    folder = blend_models(base, after, 0.5, tmp_path / "blend")
    blend = load_file(folder / WEIGHTS)
    first, second = (untied[head], tied[embedding]) if whose == "base" else (tied[embedding], untied[head])
    assert torch.equal(blend[head], first + 0.5 * (second - first))
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is False


def test_a_stored_copy_of_tied_embeddings_is_dropped_and_a_different_one_refused(
    base_tensors: Tensors, tmp_path: Path
) -> None:
    copy = base_tensors["model.embed_tokens.weight"].clone()
    stored = model(tmp_path / "copy", dict(base_tensors) | {"lm_head.weight": copy})
    assert "lm_head.weight" not in load_file(blend_models(BASE, stored, 0.5, tmp_path / "blend") / WEIGHTS)
    other = model(tmp_path / "other", dict(base_tensors) | {"lm_head.weight": copy + 1})
    assert "ties the output head" in refused(BASE, other, tmp_path)


def test_folders_without_readable_weights_are_refused(rl: Path, tmp_path: Path) -> None:
    whole = (rl / WEIGHTS).read_bytes()
    (rl / WEIGHTS).write_bytes(whole[:-100])
    assert "not a whole safetensors file" in refused(BASE, rl, tmp_path)
    (rl / WEIGHTS).write_bytes(whole[:5])
    assert "not a whole safetensors file" in refused(BASE, rl, tmp_path)
    (rl / WEIGHTS).rename(rl / "pytorch_model.bin")
    assert "pickled" in refused(BASE, rl, tmp_path)


def test_a_missing_shard_is_named(base_tensors: Tensors, tmp_path: Path) -> None:
    after = model(tmp_path / "rl", base_tensors, shards=3)
    (after / "model-00002-of-00003.safetensors").unlink()
    assert "lacks model-00002-of-00003.safetensors" in refused(BASE, after, tmp_path)


def test_a_disk_that_is_too_small_is_said_before_writing(
    rl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 0, 10**6))
    out = tmp_path / "new" / "blends"
    with pytest.raises(OffleashError, match=r"has 0.0 GB free, and 2 blends need"):
        write_blends(str(BASE), str(rl), [0.25, 0.75], out)
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("nowhere", "neither a folder here nor a name on the hub"),
        ("hf:org/missing", "Download it first: hf download org/missing"),
        ("endpoint:http://localhost:1#m", "is not a model folder"),
    ],
)
def test_names_that_are_no_model_here_are_refused(named: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=message):
        write_blends(str(BASE), named, [0.5], tmp_path)
