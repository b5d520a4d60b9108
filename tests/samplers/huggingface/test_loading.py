"""Loading hf: models: adapters, chat templates, images; and what is said of a folder that holds no model."""

import base64
import io
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from offleash.errors import OffleashError
from offleash.samplers.huggingface.sampler import open_sampler
from offleash.samplers.registry import Model, fingerprint, model_of
from offleash.samplers.sampler import Request, SamplingParams
from tests.samplers.huggingface.tiny import WORDS, next_logits, tiny_model, tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def refusal(model: str, **settings: str) -> str:
    with pytest.raises(OffleashError) as result:
        open_sampler(model_of(model, settings))
    return str(result.value)


def test_a_models_name_says_who_runs_it_and_which_revision_and_adapter(folder: Path) -> None:
    assert model_of("hf:org/name@main+org/adapter") == Model("hf", "org/name", "main", "org/adapter")
    assert model_of("vllm:org/name@v1.0") == Model("vllm", "org/name", "v1.0")
    assert model_of(f"hf:{folder}+lora") == Model("hf", str(folder), "", "lora")
    assert model_of("endpoint:http://localhost:8000/v1#a@b+c").name == "http://localhost:8000/v1#a@b+c"
    assert str(model_of("hf:org/name@main+ad")) == "hf:org/name@main+ad"
    (odd := folder / "c++@home").mkdir(exist_ok=True)
    assert model_of(f"hf:{odd}") == Model("hf", str(odd))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("org/name", "Write hf:org/name or vllm:org/name"),
        ("hg:org/name", "Did you mean 'hf:'?"),
        ("http://localhost:8000", "Write endpoint:http://localhost:8000"),
        ("hf:", "does not name a model"),
        ("hf:org/name+", "ends in '+'"),
    ],
)
def test_a_name_that_does_not_say_it_is_refused_with_how_to_write_it(name: str, said: str) -> None:
    with pytest.raises(OffleashError, match=re.escape(said)):
        model_of(name)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["adapter_config.json", "adapter_model.safetensors"], "hf:org/base+"),
        (["model_world_size_8_rank_0.pt", "config.json"], "python -m verl.model_merger merge --backend fsdp"),
        (["zero_to_fp32.py", "latest"], "zero_to_fp32.py"),
        (["__0_0.distcp", "config.json"], "accelerate merge-weights"),
        (["checkpoint-90/x", "checkpoint-100/x"], "checkpoint-100"),
        (["actor/x"], "actor"),
        (["config.json", "pytorch_model.bin"], "safetensors"),
        (["config.json"], "no weights"),
        (["notes.txt"], "no config.json"),
    ],
)
def test_a_folder_that_holds_something_else_gets_the_command_that_makes_a_model_of_it(
    tmp_path: Path, files: list[str], said: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"base_model_name_or_path": "org/base"}))
    assert said in refusal(f"hf:{tmp_path}")


def test_paths_settings_and_devices_that_are_none_are_named(folder: Path, tmp_path: Path) -> None:
    assert "is not a folder" in refusal(f"hf:{tmp_path}/nothing")
    assert "is a file" in refusal(f"hf:{folder}/config.json")
    assert "Did you mean 'memory'?" in refusal(f"hf:{folder}", memry="3")
    assert "found 'lots'" in refusal(f"hf:{folder}", memory="lots")
    assert "found '-1'" in refusal(f"hf:{folder}", rows="-1")
    assert "float16" in refusal(f"hf:{folder}", dtype="float17")
    assert "Device 'cuda:99' is not available" in refusal(f"hf:{folder}", device="cuda:99")
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "model.safetensors").write_text("?")
    assert "cannot be loaded" in refusal(f"hf:{tmp_path}")


def test_an_adapter_is_merged_into_the_model(folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(5)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    adapted = get_peft_model(plain, LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapted.save_pretrained(str(tmp_path))
    expected = next_logits(adapted.eval(), [0, 1])
    sampler = open_sampler(model_of(f"hf:{folder}+{tmp_path}"))
    assert sampler.network is not None
    ((_, actual),) = sampler.network.prefill([[0, 1]])
    assert torch.allclose(actual, expected, atol=1e-4)
    assert not torch.allclose(
        actual, next_logits(AutoModelForCausalLM.from_pretrained(folder).eval(), [0, 1]), atol=1e-2
    )
    assert len(sampler.about.fingerprint.split()) == 2


def test_the_chat_template_is_used_unless_prompts_are_raw(tmp_path: Path) -> None:
    tiny_model(tmp_path)
    chatty = tokenizer()
    chatty.chat_template = "a {% for m in messages %}{{ m['content'] }}{% endfor %} <think>"
    chatty.save_pretrained(tmp_path)
    asked = open_sampler(model_of(f"hf:{tmp_path}"))
    assert asked.rendered_prompt("b c") == "a b c <think>"
    assert asked.prompt_encoder.encode(Request("p", "b", 0, 1, 0))[0] == [0, 1, WORDS.index("<unk>")]
    raw = open_sampler(model_of(f"hf:{tmp_path}", raw=True))
    assert raw.rendered_prompt("b c") == "b c"
    assert raw.about.raw


def test_the_fingerprint_changes_with_the_weights_and_not_with_time(folder: Path, tmp_path: Path) -> None:
    before = fingerprint(str(folder))
    assert before == fingerprint(str(folder))
    assert fingerprint(str(tiny_model(tmp_path, seed=1))) != before
    assert fingerprint("org/name") == ""


def test_images_go_to_a_model_that_sees_them(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="pictures need pillow")
    sees = seeing_model(tmp_path)
    pictures = []
    for colour in ("red", "blue"):
        file = io.BytesIO()
        pillow.new("RGB", (8, 8), colour).save(file, "PNG")
        pictures.append("data:image/png;base64," + base64.b64encode(file.getvalue()).decode())
    sampler = open_sampler(model_of(f"hf:{sees}"))
    requests = [Request(f"p{place}", "a b", 0, 40, 9, (picture,)) for place, picture in enumerate(pictures)]
    actual = [item.samples for item in sampler.sample(requests, SamplingParams(max_tokens=5))]
    assert [len(samples) for samples in actual] == [40, 40]
    assert [item.text for item in actual[0]] != [item.text for item in actual[1]]
    assert [item.logprob_raw for item in actual[0]] != [item.logprob_raw for item in actual[1]]


def test_images_for_a_model_that_does_not_see_are_the_error_of_that_problem(folder: Path) -> None:
    requests = [Request("seen", "a", 0, 2, 1, ("data:image/png;base64,AA",)), Request("read", "a", 0, 2, 1)]
    actual = {
        item.request.problem: item for item in open_sampler(model_of(f"hf:{folder}")).sample(requests, SamplingParams())
    }
    assert "not a vision model" in actual["seen"].error
    assert len(actual["read"].samples) == 2


def seeing_model(folder: Path) -> Path:
    """A tiny random model of pictures and text."""
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(0)
    words = (*WORDS, "<image>")
    text = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, bos_token_id=None, eos_token_id=4, pad_token_id=5,
    )  # fmt: skip
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=8, patch_size=4
    )
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=len(words) - 1)
    model = LlavaForConditionalGeneration(config)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.3)
    model.save_pretrained(folder)
    template = (
        "{% for m in messages %}{% for part in m['content'] %}"
        "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    known = tokenizer(words)
    known.add_special_tokens({"additional_special_tokens": ["<image>"]})
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"height": 8, "width": 8}, crop_size={"height": 8, "width": 8}, do_convert_rgb=True),
        known,
        patch_size=4,
        vision_feature_select_strategy="default",
        chat_template=template,
        image_token="<image>",
        num_additional_image_tokens=1,
    )
    processor.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"\xff" * 64),
        ("model.safetensors", (20).to_bytes(8, "little") + b"[" * 20),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"[" * 100_000),
        ("tokenizer_config.json", b'{"a":' * 100_000),
        ("config.json", b"[" * 100_000),
    ],
)
def test_a_model_with_a_damaged_file_cannot_be_loaded(tmp_path: Path, folder: Path, file: str, content: bytes) -> None:
    shutil.copytree(folder, tmp_path / "model")
    assert (tmp_path / "model" / file).exists()
    (tmp_path / "model" / file).write_bytes(content)
    assert f"{tmp_path / 'model'} cannot be loaded: " in refusal(f"hf:{tmp_path / 'model'}")
