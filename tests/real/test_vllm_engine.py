"""vLLM itself against plain forward passes of the same tiny model: `make test-vllm`."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offleash.errors import OffleashError
from offleash.samplers.registry import Model, open_sampler
from offleash.samplers.sampler import Request, SampleChunk, SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.samplers.vllm.sampler import VllmSampler
from tests.places import ROOT
from tests.real.enumeration import completions, p_value
from tests.real.models import tiny_model
from tests.samplers.vllm.vllm_groups import alive, gone

pytestmark = pytest.mark.vllm
SMALL = {"dtype": "float32", "enforce_eager": "true", "max_model_len": "64", "cpu_kvcache_space": "1"}
PROMPT = "a b c"
TEMPLATE = (
    "{% for message in messages %}f e {{ message['content'] }}{% endfor %}{% if add_generation_prompt %} d{% endif %}"
)
SHORT = SamplingParams(max_tokens=3)
CUT = SamplingParams(temperature=0.6, top_p=0.95, top_k=4, max_tokens=3)


def opened(model: Path, adapter: str = "", **settings: str) -> VllmSampler:
    os.environ.setdefault("OFFLEASH_VLLM_PYTHON", str(ROOT / ".envs" / "vllm" / "bin" / "python"))
    sampler = open_sampler(Model("vllm", str(model), adapter=adapter, settings={**SMALL, **settings}))
    assert isinstance(sampler, VllmSampler)
    return sampler


def shared_memory() -> set[str]:
    """Segments that a process would leave behind."""
    return {file.name for file in Path("/dev/shm").glob("psm_*")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"), "qwen3")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[VllmSampler]:
    before = shared_memory()
    sampler = opened(folder)
    yield sampler
    sampler.close()
    assert gone(sampler.process.pid, 2)
    assert shared_memory() <= before


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def chunks(number: int, size: int = 256, prompt: str = PROMPT) -> list[Request]:
    return [Request("p", prompt, one * size, size, seed_of("run", "p")) for one in range(number)]


def by_index(drawn: list[SampleChunk]) -> dict[int, tuple[str, int | None, str, float | None]]:
    assert not any(one.error for one in drawn)
    return {s.index: (s.text, s.tokens, s.finish, s.logprob_raw) for one in drawn for s in one.samples}


@pytest.mark.parametrize(
    "decoding", [SHORT, CUT, SamplingParams(min_p=0.2, max_tokens=3)], ids=["plain", "cut", "min-p"]
)
def test_completions_come_as_often_as_enumeration_says(
    engine: VllmSampler, plain: tuple[Any, Any], decoding: SamplingParams
) -> None:
    expected = completions(*plain, prompt_ids=[0, 1, 2], decoding=decoding)
    assert len(expected) == 259
    samples = [sample for one in engine.sample(chunks(64), decoding) for sample in one.samples]
    assert sorted(sample.index for sample in samples) == list(range(16384))
    p = p_value([sample.text.strip() for sample in samples], expected)
    print(f"\nchi-square of 16384 samples, {decoding}: p = {p:.3f}")
    assert p > 1e-3
    worst = 0.0
    for sample in samples:
        one = expected[sample.text.strip()]
        assert sample.tokens == one.tokens
        assert sample.finish == ("length" if len(one.words) == 3 else "stop")
        assert sample.logprob_raw is not None
        worst = max(worst, abs(sample.logprob_raw - one.raw))
        assert sample.logprob_sampled == (sample.logprob_raw if decoding.is_plain else None)
    print(f"largest difference of a log-probability: {worst:.1e}")
    assert worst < 1e-4


def test_one_request_may_ask_for_1024_samples_and_is_the_same_when_drawn_again(engine: VllmSampler) -> None:
    first, again = (by_index(list(engine.sample(chunks(1, 1024), SHORT))) for _ in range(2))
    assert len(first) == 1024
    assert first == again


def test_the_samples_of_a_chunk_do_not_depend_on_what_is_drawn_beside_it(engine: VllmSampler) -> None:
    whole = by_index(list(engine.sample(chunks(1, 1024), SHORT)))
    others = [Request("q", "c c", first, 77, seed_of("run", "q")) for first in range(0, 770, 77)]
    mixed = [one for pair in zip(chunks(10, 77), others, strict=True) for one in pair]
    parts = by_index([one for one in engine.sample(mixed, SHORT) if one.request.problem == "p"])
    assert {index: sample[:3] for index, sample in whole.items() if index < 770} == {
        index: sample[:3] for index, sample in parts.items()
    }


def test_greedy_samples_are_the_most_probable_token_each_time(engine: VllmSampler, plain: tuple[Any, Any]) -> None:
    import torch

    ids = [0, 1, 2]
    for _ in range(3):
        ids.append(int(plain[0](torch.tensor([ids])).logits[0, -1].argmax()))
    (drawn,) = engine.sample(chunks(1, 8), SamplingParams(temperature=0, max_tokens=3))
    assert {sample.text.strip() for sample in drawn.samples} == {plain[1].decode(ids[3:])}
    assert {sample.logprob_sampled for sample in drawn.samples} == {0.0}


def test_a_stop_text_ends_a_sample_and_is_no_part_of_it(engine: VllmSampler) -> None:
    (drawn,) = engine.sample(chunks(1, 64), SamplingParams(max_tokens=30, stop=("b",)))
    stopped = [sample for sample in drawn.samples if sample.finish == "stop"]
    assert stopped
    assert not any("b" in sample.text for sample in drawn.samples)


def test_a_prompt_longer_than_the_context_is_trouble_of_its_own(engine: VllmSampler) -> None:
    long = Request("long", " ".join(["a"] * 70), 0, 4, seed=1)
    found = {one.request.problem: one for one in engine.sample([long, *chunks(1, 4)], SHORT)}
    assert "70" in found["long"].error
    assert not found["long"].samples
    assert len(found["p"].samples) == 4


def test_a_sample_that_reaches_the_end_of_the_context_is_truncated(engine: VllmSampler) -> None:
    full = Request("full", " ".join(["a"] * 60), 0, 64, seed=1)
    (drawn,) = engine.sample([full], SamplingParams(max_tokens=1000))
    assert {sample.tokens for sample in drawn.samples if sample.finish == "length"} == {4}


def test_an_option_that_vllm_does_not_take_is_told_in_its_own_words(folder: Path) -> None:
    for settings, words in [({"dtyp": "float32"}, "Did you mean 'dtype'"), ({"dtype": "float7"}, "float7")]:
        with pytest.raises(OffleashError, match=words) as refusal:
            opened(folder, **settings)
        assert "\n" not in str(refusal.value)


def test_weights_that_do_not_fit_the_configuration_are_told_from_the_engines_log(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(OffleashError, match="Error: ") as refusal:
        opened(broken)
    print(refusal.value)
    assert "root cause" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_adapter_and_a_chat_template_are_used_and_a_killed_worker_leaves_nothing(tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = tiny_model(tmp_path / "base", template=TEMPLATE)
    torch.manual_seed(1)  # also for what the adapter begins with
    wanted: Any = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
    )
    for name, weight in wanted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    wanted.save_pretrained(tmp_path / "adapter")
    before = shared_memory()
    sampler = opened(base, adapter=str(tmp_path / "adapter"))
    try:
        assert sampler.rendered_prompt(PROMPT) == "f e a b c d"
        tokenizer = AutoTokenizer.from_pretrained(base)
        expected = completions(wanted.eval(), tokenizer, tokenizer.encode("f e a b c d"), SHORT)
        samples = [sample for one in sampler.sample(chunks(16), SHORT) for sample in one.samples]
        p = p_value([sample.text.strip() for sample in samples], expected)
        print(f"\nchi-square of 4096 samples with an adapter: p = {p:.3f}")
        assert p > 1e-3
        assert all(abs((s.logprob_raw or 0) - expected[s.text.strip()].raw) < 1e-4 for s in samples)

        call = sampler.sample(chunks(64), SHORT)
        next(call)
        assert len(alive(sampler.process.pid)) > 1
        os.kill(sampler.process.pid, signal.SIGKILL)
        with pytest.raises(OffleashError, match="SIGKILL"):
            list(call)
        assert gone(sampler.process.pid, 2)
        assert shared_memory() <= before
    finally:
        sampler.close()
