"""hf: samples are exact: the same by every engine, distributed as enumeration says, whatever is drawn beside them."""

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForCausalLM

from offleash.samplers.huggingface.prefix_sampling import distribution
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, Sample, SamplingParams
from tests.samplers.huggingface.tiny import END, FAMILIES, WORDS, next_logits, tiny_model

ENGINES: dict[str, dict[str, str]] = {
    "merged": {},
    "rows": {"merge": "off"},
    "generate": {"engine": "generate"},
    "little memory": {"memory": "0.00002", "rows": "7"},
}
DECODINGS = {
    "plain": SamplingParams(max_tokens=4),
    "paper": SamplingParams(temperature=0.6, top_p=0.95, max_tokens=4),
    "top-k and min-p": SamplingParams(temperature=1.4, top_k=3, min_p=0.1, max_tokens=4),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def opened(folder: Path, **settings: str) -> HuggingFace:
    return open_sampler(model_of(f"hf:{folder}", settings))


def asked(problem: str, prompt: str, first: int, size: int, more_expected: bool = False) -> Request:
    return Request(problem, prompt, first, size, seed=sum(map(ord, problem)), more_expected=more_expected)


def drawn(sampler: HuggingFace, requests: list[Request], decoding: SamplingParams) -> dict[tuple[str, int], Sample]:
    collected: dict[tuple[str, int], Sample] = {}
    for item in sampler.sample(requests, decoding):
        assert not item.error
        assert [sample.index for sample in item.samples] == list(
            range(item.request.first, item.request.first + item.request.size)
        )
        collected |= {(item.request.problem, sample.index): sample for sample in item.samples}
    return collected


def enumerated(folder: Path, prompt: str, decoding: SamplingParams) -> dict[tuple[str, str], float]:
    """The probability of every (text, finish), by plain forward passes over all sequences."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    start = [WORDS.index(word) for word in prompt.split()]
    actual: dict[tuple[str, str], float] = defaultdict(float)
    todo: list[tuple[list[int], float]] = [([], 1.0)]
    while todo:
        tokens, chance = todo.pop()
        after = distribution(next_logits(model, start + tokens)[None], decoding).sampled_RV[0].double().exp()
        for token in range(len(WORDS)):
            share = chance * float(after[token])
            text = " ".join(WORDS[item] for item in tokens if WORDS[item] not in ("<pad>", "<unk>"))
            if token == END:
                actual[text, "stop"] += share
            elif len(tokens) + 1 == decoding.max_tokens:
                last = WORDS[token] if WORDS[token] not in ("<pad>", "<unk>") else ""
                actual[f"{text} {last}".strip(), "length"] += share
            elif share > 0:
                todo.append(([*tokens, token], share))
    return actual


def chi_square(count: Counter[tuple[str, str]], chance: dict[tuple[str, str], float]) -> float:
    """p-value of a count against probabilities; rare outcomes together."""
    total = sum(count.values())
    assert not set(count) - {key for key, share in chance.items() if share > 0}
    usual = [key for key in chance if chance[key] * total >= 8]
    seen = np.array([count[key] for key in usual] + [total - sum(count[key] for key in usual)], float)
    expected = np.array([chance[key] * total for key in usual])
    expected = np.append(expected, total - expected.sum())
    keep = expected > 1e-6 * total
    return float(stats.chi2.sf(((seen - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1))


@pytest.mark.parametrize("decoding", DECODINGS.values(), ids=DECODINGS)
@pytest.mark.parametrize("engine", ["merged", "rows"])
def test_samples_are_distributed_as_enumeration_says(folder: Path, engine: str, decoding: SamplingParams) -> None:
    chance = enumerated(folder, "a b c", decoding)
    assert sum(chance.values()) == pytest.approx(1, abs=1e-5)
    requests = [asked("exact", "a b c", first, 256) for first in range(0, 256 * 32, 256)]
    result = drawn(opened(folder, **ENGINES[engine]), requests, decoding)
    assert chi_square(Counter((item.text, item.finish) for item in result.values()), chance) > 1e-4


@pytest.mark.parametrize("decoding", DECODINGS.values(), ids=DECODINGS)
def test_every_engine_gives_the_same_samples_and_the_same_sums(folder: Path, decoding: SamplingParams) -> None:
    requests = [asked(name, prompt, first, 20) for name, prompt in PROMPTS.items() for first in (0, 20)]
    runs = {name: drawn(opened(folder, **settings), requests, decoding) for name, settings in ENGINES.items()}
    first = runs["merged"]
    assert len(first) == 160
    for run in runs.values():
        assert {key: (item.text, item.finish, item.tokens, item.seed) for key, item in run.items()} == {
            key: (item.text, item.finish, item.tokens, item.seed) for key, item in first.items()
        }
        for key, item in run.items():
            assert sums(item) == pytest.approx(sums(first[key]), abs=1e-4)


PROMPTS = {"one": "a b c", "two": "d", "three": "a a a a b", "four": "c d c d c d c d c"}


def sums(sample: Sample) -> list[float]:
    actual = [sample.logprob_raw, sample.logprob_sampled, sample.entropy_raw, sample.entropy_sampled]
    return [item for item in actual if item is not None]


@pytest.mark.parametrize("family", [*FAMILIES, "bloom"])
def test_every_family_of_models_gives_what_its_own_generate_gives(family: str, tmp_path: Path) -> None:
    folder, decoding = tiny_model(tmp_path, family), SamplingParams(max_tokens=12)
    requests = [asked(name, prompt, 0, 24) for name, prompt in PROMPTS.items()]
    shared = opened(folder)
    assert (shared.network is None) == (family == "bloom")
    actual, plain = (drawn(item, requests, decoding) for item in (shared, opened(folder, engine="generate")))
    assert {key: item.text for key, item in actual.items()} == {key: item.text for key, item in plain.items()}
    assert max(abs(sums(actual[key])[0] - sums(plain[key])[0]) for key in actual) < 1e-3


def test_sums_agree_with_a_plain_forward_pass(folder: Path) -> None:
    decoding = SamplingParams(temperature=0.7, top_p=0.9, max_tokens=6)
    result = drawn(opened(folder), [asked("sums", "b b", 0, 60)], decoding)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for sample in result.values():
        tokens = [WORDS.index(word) for word in sample.text.split()]
        if len(tokens) != (sample.tokens or 0) - (sample.finish == "stop"):
            continue  # a special token, which a text does not show
        tokens += [END] if sample.finish == "stop" else []
        expected = np.zeros(4)
        for place, token in enumerate(tokens):
            after = distribution(next_logits(model, [1, 1, *tokens[:place]])[None], decoding)
            expected += [
                float(after.raw_RV[0, token]),
                float(after.sampled_RV[0, token]),
                float(after.entropy_raw_R[0]),
                float(after.entropy_sampled_R[0]),
            ]
        assert sums(sample) == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_chunk_is_the_same_whatever_is_drawn_beside_it_before_it_or_after_it(folder: Path) -> None:
    decoding = SamplingParams(max_tokens=8)
    chunks = [asked(name, prompt, first, 16) for name, prompt in PROMPTS.items() for first in range(0, 64, 16)]
    together = drawn(opened(folder), chunks, decoding)
    backwards, one_by_one = opened(folder), opened(folder)
    assert same(drawn(backwards, chunks[::-1], decoding), together)
    alone: dict[tuple[str, int], Sample] = {}
    for chunk in chunks[::3]:
        alone |= drawn(one_by_one, [chunk], decoding)
    assert same(alone, {key: together[key] for key in alone})


def same(actual: dict[tuple[str, int], Sample], expected: dict[tuple[str, int], Sample]) -> bool:
    return {key: (item.text, item.finish, item.seed) for key, item in actual.items()} == {
        key: (item.text, item.finish, item.seed) for key, item in expected.items()
    }


def test_rounds_that_keep_the_tree_need_no_more_forward_passes_than_one_draw(folder: Path) -> None:
    decoding = SamplingParams(temperature=0.7, max_tokens=6)
    whole, rounds, forgetful = opened(folder), opened(folder), opened(folder)
    edges = [0, 5, 7, 12, 40, 100, 300, 700]
    expected = drawn(whole, [asked("tree", "a b", 0, 700)], decoding)
    parts: dict[tuple[str, int], Sample] = {}
    for low, high in pairwise(edges):
        parts |= drawn(rounds, [asked("tree", "a b", low, high - low, more_expected=True)], decoding)
        drawn(forgetful, [asked("tree", "a b", low, high - low)], decoding)
    assert same(parts, expected)
    for key, item in parts.items():
        assert sums(item) == pytest.approx(sums(expected[key]), abs=1e-4)
    prompt = 2  # tokens, read once by each
    assert rounds.forwarded == whole.forwarded
    assert forgetful.forwarded > 1.3 * whole.forwarded
    assert whole.forwarded - prompt < sum(item.tokens or 0 for item in expected.values()) / 3
    rounds.forget("tree")
    assert not rounds._trees


def test_a_stop_text_ends_samples_of_every_round_at_the_same_token(folder: Path) -> None:
    decoding = SamplingParams(max_tokens=12, stop=("b",))
    expected = drawn(opened(folder), [asked("stop", "a b", 0, 200)], decoding)
    rounds, parts = opened(folder), dict[tuple[str, int], Sample]()
    for low in range(0, 200, 50):
        parts |= drawn(rounds, [asked("stop", "a b", low, 50, more_expected=True)], decoding)
    assert same(parts, expected)
    assert [part.tokens for part in parts.values()] == [item.tokens for item in expected.values()]


@pytest.mark.slow
def test_samples_that_cannot_all_be_held_are_read_again_and_stay_the_same(folder: Path) -> None:
    decoding = SamplingParams(max_tokens=20)
    requests = [asked(name, prompt, 0, 200) for name, prompt in PROMPTS.items()]
    roomy, narrow = opened(folder), opened(folder, memory="0.00005")
    assert same(drawn(narrow, requests, decoding), drawn(roomy, requests, decoding))
    assert narrow.forwarded > roomy.forwarded
    assert narrow.network is not None
    assert narrow.network.slots is not None
    held = narrow.network.slots
    assert held.slots * held.tokens * held.bytes_per_token <= 2 * narrow.limits.memory


def test_a_stop_text_ends_a_sample_and_is_no_part_of_it(folder: Path) -> None:
    result = drawn(opened(folder), [asked("stop", "a", 0, 200)], SamplingParams(max_tokens=12, stop=("c d", "b b")))
    plain = drawn(opened(folder), [asked("stop", "a", 0, 200)], SamplingParams(max_tokens=12))
    cut = 0
    for key, item in result.items():
        whole = plain[key].text
        places = [place for place in (whole.find("c d"), whole.find("b b")) if place >= 0]
        assert item.text == whole[: min(places, default=len(whole))]
        assert item.finish == ("stop" if places else plain[key].finish)
        cut += bool(places)
    assert 20 < cut < 200


def test_a_prompt_that_does_not_fit_is_told_and_the_others_are_drawn(folder: Path) -> None:
    requests = [asked("long", "a " * 70, 0, 4), asked("short", "a", 0, 4), asked("nearly", "b " * 60, 0, 4)]
    actual = {item.request.problem: item for item in opened(folder).sample(requests, SamplingParams(max_tokens=30))}
    assert actual["long"].error == "the prompt has 70 tokens, but the model's context is 64"
    assert len(actual["short"].samples) == 4
    assert all((sample.tokens or 0) <= 4 for sample in actual["nearly"].samples)
    assert {sample.finish for sample in actual["nearly"].samples} <= {"stop", "length"}


def test_the_appetite_follows_the_speed(folder: Path) -> None:
    sampler = opened(folder)
    before = sampler.batch_size
    drawn(sampler, [asked("fast", "a", 0, 64)], SamplingParams(max_tokens=2))
    assert before < sampler.batch_size <= 16384
