"""The hf: engine at its edges: models it must not run, numbers that are none, memory, settings of the model's own."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from offleash.errors import OffleashError
from offleash.samplers.huggingface.enumerate_completions import PrefixExpansion
from offleash.samplers.huggingface.prefix_tree import Tree
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, SamplingParams
from tests.samplers.huggingface import tiny
from tests.samplers.huggingface.test_huggingface import asked, drawn, opened, same


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize(
    ("family", "options", "why"),
    [
        (
            "llama4_text",
            {"attention_chunk_size": 8, "head_dim": 8, "intermediate_size_mlp": 48},
            "special attention patterns",
        ),
        ("phimoe", {"sliding_window": 8}, "a window of 8 tokens"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}}, "longest row"),
    ],
)
def test_models_with_special_attention_are_left_to_generate(
    family: str, options: dict[str, object], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {"num_key_value_heads": 2, "num_local_experts": 2, **options}
    monkeypatch.setitem(tiny.FAMILIES, family, some)
    sampler = opened(tiny.tiny_model(tmp_path, family))
    assert sampler.network is None
    assert why in sampler.fallback_reason


def test_probabilities_that_are_no_numbers_end_the_draw_with_a_message(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"] = torch.full_like(weights["model.norm.weight"], torch.nan)
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    sampler = opened(tmp_path)
    with pytest.raises(OffleashError, match="NaN probabilities"):
        list(sampler.sample([asked("nan", "a", 0, 4)], SamplingParams(max_tokens=3)))


def test_settings_in_the_models_own_configuration_do_not_act(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "generation_config.json").read_text())
    config |= {"no_repeat_ngram_size": 1, "suppress_tokens": [0], "min_new_tokens": 5, "repetition_penalty": 1.5}
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    requests, decoding = [asked("own", "a b", 0, 60)], SamplingParams(max_tokens=8)
    expected = drawn(opened(folder), requests, decoding)
    assert same(drawn(opened(tmp_path, engine="generate"), requests, decoding), expected)
    assert same(drawn(opened(tmp_path), requests, decoding), expected)


def test_one_long_sample_does_not_make_later_batches_small(folder: Path) -> None:
    sampler = opened(folder, memory="0.001")
    drawn(sampler, [asked("long", "a", 0, 2)], SamplingParams(max_tokens=60))
    assert sampler.network is not None
    sampler.network.slots = sampler.network.slots and sampler.network.slots.allocate_like(
        sampler.network.slots.layers, 4, 4000
    )
    before = sampler.forwarded
    drawn(sampler, [asked("short", "a", 0, 200)], SamplingParams(max_tokens=6))
    fresh = opened(folder, memory="0.001")
    drawn(fresh, [asked("short", "a", 0, 200)], SamplingParams(max_tokens=6))
    assert sampler.forwarded - before == fresh.forwarded


def test_trees_of_all_problems_together_stay_within_the_memory(folder: Path) -> None:
    sampler = opened(folder, memory="0.0002")
    for place in range(12):
        drawn(sampler, [asked(f"p{place}", "a b " * 8, 0, 80, more_expected=True)], SamplingParams(max_tokens=12))
        assert held(sampler) <= sampler.limits.memory
    assert len(sampler._trees) < 12


def held(sampler: HuggingFace) -> int:
    assert sampler.network is not None
    return sum(tree.bytes(sampler.network.bytes_per_token) for tree in sampler._trees.values())


def test_prompts_that_do_not_fit_together_are_drawn_after_one_another(folder: Path) -> None:
    requests = [asked(f"p{place}", "a b c d " * 12, 0, 3) for place in range(20)]
    narrow = opened(folder, memory="0.0001")
    waves = [wave for wave, _ in narrow._waves(requests, SamplingParams(max_tokens=4))]
    assert len(waves) > 3
    assert same(
        drawn(narrow, requests, SamplingParams(max_tokens=4)),
        drawn(opened(folder), requests, SamplingParams(max_tokens=4)),
    )


@pytest.mark.parametrize("engine", ["auto", "generate"])
def test_a_stop_text_that_the_last_token_completes_has_ended_the_sample(folder: Path, engine: str) -> None:
    decoding = SamplingParams(max_tokens=3, stop=("c d",))
    result = drawn(opened(folder, engine=engine), [asked("edge", "a", 0, 300)], decoding)
    plain = drawn(opened(folder), [asked("edge", "a", 0, 300)], SamplingParams(max_tokens=3))
    ended = [key for key, item in plain.items() if item.text.endswith("c d") and item.tokens == 3]
    assert ended
    assert {result[key].finish for key in ended} == {"stop"}


def test_a_certificate_says_the_same_of_such_a_stop(folder: Path) -> None:
    from offleash.samplers.huggingface.text import stop_finder

    sampler = opened(folder)
    assert sampler.network is not None
    ((layers, logits),) = sampler.network.prefill([[0]])
    stops = stop_finder(sampler.loaded.tokenizer, ("c d",))
    tree = Tree([0], layers, logits[None].float())
    ends = torch.tensor(sampler.loaded.ends).numpy()
    way = PrefixExpansion(sampler.network, SamplingParams(max_tokens=3), ends, tree, 1e-4, 1e-4, stops=stops)
    for leaves in way.leaves():
        if leaves.finish == "length":
            assert not any(stops(leaves.token_ET))


def test_a_stop_text_of_many_bytes_is_found_where_every_token_is_one_byte() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from offleash.samplers.huggingface.text import stop_finder

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: place for place, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    for stop in ("終了。", "答案：", "🎉🎉"):
        rows = torch.tensor([tokenizer.encode(f"some words {stop}")], dtype=torch.int32).numpy()
        assert stop_finder(tokenizer, (stop,))(rows).all()
        assert not stop_finder(tokenizer, (stop,))(rows[:, :-1]).any()


def test_many_small_problems_that_keep_their_trees_cost_little_more_than_those_that_do_not(folder: Path) -> None:
    sampler = open_sampler(model_of(f"hf:{folder}"))
    calls = 0
    bytes_for_tokens = Tree.bytes_for_tokens

    def counted(self: Tree, nodes: int, bytes_per_token: int) -> int:
        nonlocal calls
        calls += 1
        return bytes_for_tokens(self, nodes, bytes_per_token)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tree, "bytes_for_tokens", counted)
        requests = [Request(str(place), "a b", 0, 5, place, more_expected=True) for place in range(100)]
        list(sampler.sample(requests, SamplingParams(max_tokens=6)))
    assert calls < 100 * 12  # once a problem and depth, not once a pair of problems
