"""Exact support: the expansion of a prompt equals the enumeration of all sequences, whatever it is cut into."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForCausalLM

from offleash.errors import OffleashError
from offleash.samplers.exact_support import FREE_FACTOR, Expansion, expander_of
from offleash.samplers.huggingface.prefix_sampling import distribution
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, Sampler, SamplingParams
from offleash.samplers.scripted import Scripted
from tests.samplers.huggingface.tiny import END, WORDS, tiny_model

EPSILON = 2e-3
DECODINGS = {
    "plain": SamplingParams(max_tokens=4),
    "paper": SamplingParams(temperature=0.6, top_p=0.95, max_tokens=4),
    "top-k and min-p": SamplingParams(temperature=1.4, top_k=4, min_p=0.1, max_tokens=4),
}
Key = tuple[tuple[int, ...], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def opened(folder: Path, **settings: str) -> HuggingFace:
    return open_sampler(model_of(f"hf:{folder}", settings))


def expanded(sampler: Sampler, decoding: SamplingParams, epsilon: float = EPSILON, prompt: str = "a b c") -> Expansion:
    result = expander_of(sampler).expand(Request("p", prompt, 0, 1, 0), decoding, epsilon)
    assert not result.error
    return result


def enumerated(folder: Path, decoding: SamplingParams) -> tuple[dict[Key, np.ndarray], dict[tuple[int, ...], float]]:
    """Log-probabilities (sampled, raw) of every sequence, and the probability of every prefix, by plain forwards."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    others = [token for token in range(len(WORDS)) if token != END]
    ends: dict[Key, np.ndarray] = {}
    level: dict[tuple[int, ...], np.ndarray] = {(): np.zeros(2)}
    prefixes: dict[tuple[int, ...], float] = {}
    for depth in range(decoding.max_tokens):
        prefixes |= {tokens: float(np.exp(sums[0])) for tokens, sums in level.items()}
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[0, 1, 2, *tokens] for tokens in level])).logits[:, -1]
        after = distribution(logits, decoding)
        step_RV2 = torch.stack([after.sampled_RV, after.raw_RV], -1).double().numpy()
        rows = list(zip(level.items(), step_RV2, strict=True))
        level = {}
        for (tokens, sums), step_V2 in rows:
            ends[tokens, "stop"] = sums + step_V2[END]
            for token in others:
                here = (*tokens, token)
                if depth + 1 == decoding.max_tokens:
                    ends[here, "length"] = sums + step_V2[token]
                else:
                    level[here] = sums + step_V2[token]
    return ends, prefixes


def keyed(expansion: Expansion) -> dict[Key, tuple[float, float]]:
    return {
        (completion.tokens, completion.finish): (completion.logprob_sampled, completion.logprob_raw)
        for completion in expansion.completions
    }


def chances(expansion: Expansion) -> Counter[tuple[str, str]]:
    """The probability of every (text, finish): sequences with the same text together."""
    total: Counter[tuple[str, str]] = Counter()
    for completion in expansion.completions:
        total[completion.text, completion.finish] += float(np.exp(completion.logprob_sampled))  # type: ignore[assignment]
    return total


@pytest.mark.parametrize("decoding", DECODINGS.values(), ids=DECODINGS)
def test_an_expansion_equals_the_enumeration_of_all_sequences(folder: Path, decoding: SamplingParams) -> None:
    every, prefixes = enumerated(folder, decoding)
    result = expanded(opened(folder), decoding)
    expected = {}
    for (tokens, finish), sums in every.items():
        last = tokens if finish == "stop" else tokens[:-1]
        if prefixes[last] > EPSILON and np.exp(sums[0]) > EPSILON / FREE_FACTOR:
            expected[tokens, finish] = sums
    got = keyed(result)
    assert got.keys() == expected.keys()
    above = {key for key, sums in every.items() if np.exp(sums[0]) > EPSILON}
    assert above <= got.keys()
    assert 10 < len(above) < len(got)
    for key, sums in expected.items():
        assert got[key] == pytest.approx(sums, abs=1e-4)
    mass = sum(np.exp(sums[0]) for sums in expected.values())
    assert result.unexplored == pytest.approx(1 - mass, abs=1e-5)
    assert 0 < result.unexplored < 1
    assert result.prefixes == sum(chance > EPSILON for chance in prefixes.values())
    probabilities = [completion.logprob_sampled for completion in result.completions]
    assert probabilities == sorted(probabilities, reverse=True)


@pytest.mark.parametrize("family", ["gemma2", "gpt2"])
def test_other_kinds_of_attention_expand_exactly(family: str, tmp_path: Path) -> None:
    folder, decoding = tiny_model(tmp_path, family), DECODINGS["plain"]
    every, _ = enumerated(folder, decoding)
    got = keyed(expanded(opened(folder), decoding))
    assert {key for key, sums in every.items() if np.exp(sums[0]) > EPSILON} <= got.keys()
    assert all(sums == pytest.approx(every[key], abs=1e-3) for key, sums in got.items())


def test_little_memory_gives_the_same_in_parts(folder: Path) -> None:
    whole = expanded(opened(folder), DECODINGS["plain"], 0.01)
    parts = expanded(opened(folder, memory="0.00005", rows="5"), DECODINGS["plain"], 0.01)
    assert parts.forwarded > whole.forwarded  # prefixes that waited were read again
    assert parts.prefixes == whole.prefixes
    assert keyed(parts).keys() == keyed(whole).keys()
    for key, sums in keyed(parts).items():
        assert sums == pytest.approx(keyed(whole)[key], abs=1e-5)
    assert parts.unexplored == pytest.approx(whole.unexplored, abs=1e-6)


def test_every_prefix_goes_through_the_model_once_and_few_are_alive(folder: Path) -> None:
    lines: list[str] = []
    request, decoding = Request("p", "a b c", 0, 1, 0), SamplingParams(max_tokens=8)
    result = expander_of(opened(folder)).expand(request, decoding, 0.004, lines.append)
    assert result.forwarded == 3 + result.prefixes - 1  # the prompt's tokens are read; the empty prefix is their end
    alive = [int(line.split(" prefixes")[0].replace(",", "")) for line in lines]
    assert 1 + sum(alive) == result.prefixes
    assert max(alive) < 1 / 0.004
    settled = [float(line.split("tokens, ")[1].split("%")[0]) for line in lines]
    assert settled == sorted(settled)
    depths = [int(line.split(" of ")[1].split(" tokens")[0]) for line in lines]
    assert result.deepest == max(depth for depth, prefixes in zip(depths, alive, strict=True) if prefixes)


@pytest.mark.parametrize("decoding", [DECODINGS["plain"], DECODINGS["paper"]], ids=["plain", "paper"])
def test_samples_come_as_often_as_the_certificate_says(folder: Path, decoding: SamplingParams) -> None:
    sampler, size = opened(folder), 8192
    requests = [Request("p", "a b c", first, 256, 5) for first in range(0, size, 256)]
    drawn = Counter(
        (sample.text, sample.finish) for answer in sampler.sample(requests, decoding) for sample in answer.samples
    )
    chance = chances(expanded(sampler, decoding, 1e-7))
    assert sum(chance.values()) > 1 - 1e-4
    usual = [key for key, share in chance.items() if share * size >= 8]
    seen = np.array([drawn[key] for key in usual] + [size - sum(drawn[key] for key in usual)])
    share = np.array([chance[key] for key in usual])
    assert stats.chisquare(seen, size * np.append(share, 1 - share.sum())).pvalue > 1e-4


def test_a_stop_text_ends_a_completion_and_is_no_part_of_it(folder: Path) -> None:
    decoding = replace(DECODINGS["plain"], stop=("b",))
    result = expanded(opened(folder), decoding, 1e-6)
    every, prefixes = enumerated(folder, decoding)
    b = WORDS.index("b")
    ends = {
        tokens: chance for tokens, chance in prefixes.items() if tokens and tokens[-1] == b and b not in tokens[:-1]
    }
    stopped = {
        completion.tokens: np.exp(completion.logprob_sampled)
        for completion in result.completions
        if b in completion.tokens[:3]
    }
    assert stopped == pytest.approx({tokens: chance for tokens, chance in ends.items() if chance > 1e-6}, rel=1e-3)
    assert not any("b" in completion.text for completion in result.completions)
    assert sum(
        np.exp(completion.logprob_sampled) for completion in result.completions
    ) + result.unexplored == pytest.approx(1)
    assert len(every) > len(result.completions)


def test_several_end_tokens_are_one_end(folder: Path) -> None:
    sampler, pad = opened(folder), WORDS.index("<pad>")
    first = keyed(expanded(sampler, DECODINGS["plain"], 1e-6))
    sampler.loaded = replace(sampler.loaded, ends=(END, pad))
    both = keyed(expanded(sampler, DECODINGS["plain"], 1e-6))
    either = np.exp(first[(0,), "stop"][0]) + sum(
        np.exp(sums[0]) for key, sums in first.items() if key[0][:2] == (0, pad)
    )
    assert np.exp(both[(0,), "stop"][0]) == pytest.approx(either, rel=1e-3)
    assert not any(pad in tokens for tokens, _ in both)


def test_greedy_decoding_has_one_completion(folder: Path) -> None:
    result = expanded(opened(folder), SamplingParams(temperature=0, max_tokens=6))
    assert len(result.completions) == 1
    assert result.completions[0].logprob_sampled == pytest.approx(0)
    assert result.completions[0].logprob_raw < -0.1
    assert result.unexplored == 0


def test_a_prompt_that_is_too_long_is_told(folder: Path) -> None:
    request = Request("p", "a " * 64, 0, 1, 0)
    assert "64" in expander_of(opened(folder)).expand(request, DECODINGS["plain"], EPSILON).error


def test_samplers_that_give_no_distributions_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="Leave out --set engine=generate"):
        expander_of(opened(folder, engine="generate"))
    bloom = tiny_model(tmp_path, "bloom")
    with pytest.raises(OffleashError, match="Draw samples instead"):
        expander_of(opened(bloom))
    file = tmp_path / "script.json"
    file.write_text('{"problems": {"*": {"x": 1.0}}}')
    scripted = open_scripted(file)
    with pytest.raises(OffleashError, match="scripted: gives only samples"):
        expander_of(scripted)


def open_scripted(file: Path) -> Scripted:
    from offleash.samplers.scripted import open_sampler as open_script

    return open_script(model_of(f"scripted:{file}"))


def test_vocabularies_are_told_apart(folder: Path, tmp_path: Path) -> None:
    other = tiny_model(tmp_path, words=("a", "b", "d", "c", "<end>", "<pad>", "<unk>"))
    same = tiny_model(tmp_path / "same", seed=3)
    first, second, third = (expander_of(opened(item)).vocabulary for item in (folder, same, other))
    assert first == second != third
