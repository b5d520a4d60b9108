"""The policy: samples are the model's own, read as they were drawn, and models that cannot be trained are refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import normalizers

from offleash.errors import OffleashError
from offleash.lab.countdown import tokenizer as countdown_tokenizer
from offleash.samplers.huggingface.prefix_sampling import WalkLimits
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.training.method import TokenBatch
from offleash.training.policy import Policy, check_round_trip, frozen_copy, open_policy
from tests.places import MODELS
from tests.samplers.huggingface.tiny import END, FAMILIES, WORDS, tiny_model, tokenizer

PROMPTS = [[0, 1, 2], [3], [2, 2, 1, 0, 1]]
SEEDS = [seed_of("policy", place) for place in range(len(PROMPTS))]
BASE = MODELS / "countdown"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return open_policy(f"hf:{tiny_model(tmp_path_factory.mktemp('tiny'))}")


def plainly(policy: Policy, rows: TokenBatch, row: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities and entropies of one sample's tokens, by one forward pass of the model itself."""
    prompt, length = list(rows.prompts[rows.prompt_N[row]]), int(rows.length_N[row])
    token_T = rows.token_NT[row, :length].tolist()
    policy.loaded.model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = policy.loaded.model(input_ids=torch.tensor([[*prompt, *token_T]])).logits[0, len(prompt) - 1 : -1]
    log_TV = torch.log_softmax(logits / temperature, -1)
    return log_TV[range(length), token_T].numpy(), -(log_TV.exp() * log_TV).sum(-1).numpy()


@pytest.mark.parametrize("temperature", [1.0, 1.2])
def test_samples_have_the_log_probabilities_and_entropies_of_a_plain_pass(policy: Policy, temperature: float) -> None:
    drawn = policy.draw(PROMPTS, 40, SEEDS, SamplingParams(temperature=temperature, max_tokens=7))
    for row in range(3 * 40):
        logprob_T, entropy_T = plainly(policy, drawn.rows, row, temperature)
        length = len(logprob_T)
        np.testing.assert_allclose(drawn.logprob_NT[row, :length], logprob_T, atol=1e-4)
        np.testing.assert_allclose(drawn.entropy_NT[row, :length], entropy_T, atol=1e-4)
        assert not drawn.logprob_NT[row, length:].any()
        assert not drawn.entropy_NT[row, length:].any()
    again = policy.logprobs(drawn.rows, temperature).detach().numpy()
    np.testing.assert_allclose(again[drawn.rows.token_mask_NT], drawn.logprob_NT[drawn.rows.token_mask_NT], atol=1e-4)


def test_a_sample_ends_with_the_end_or_is_cut_and_its_text_is_what_stands_before(policy: Policy) -> None:
    drawn = policy.draw(PROMPTS, 60, SEEDS, SamplingParams(max_tokens=5))
    assert drawn.truncated_N.any()
    assert not drawn.truncated_N.all()
    for row, (length, cut) in enumerate(zip(drawn.rows.length_N, drawn.truncated_N, strict=True)):
        token_T = drawn.rows.token_NT[row, :length].tolist()
        said = token_T if cut else token_T[:-1]
        assert (token_T[-1] == END) != cut
        assert END not in said
        assert not cut or length == 5
        assert drawn.texts[row] == " ".join(WORDS[token] for token in said if WORDS[token][0] != "<")


@pytest.mark.parametrize("limits", [WalkLimits(), WalkLimits(memory=20_000, rows=7), WalkLimits(merge=False)])
def test_a_sample_is_the_same_whatever_is_drawn_beside_it_and_in_however_little_memory(
    policy: Policy, limits: WalkLimits
) -> None:
    decoding, tight = SamplingParams(max_tokens=6), replace(policy, limits=limits)
    together = policy.draw(PROMPTS, 30, SEEDS, decoding)
    for place, (prompt, seed) in enumerate(zip(PROMPTS, SEEDS, strict=True)):
        alone, mine = tight.draw([prompt], 20, [seed], decoding), slice(place * 30, place * 30 + 20)
        assert alone.texts == together.texts[mine]
        assert np.array_equal(alone.rows.token_NT, together.rows.token_NT[mine])
        np.testing.assert_allclose(alone.logprob_NT, together.logprob_NT[mine], atol=1e-4)
        np.testing.assert_allclose(alone.entropy_NT, together.entropy_NT[mine], atol=1e-4)


def test_another_seed_gives_other_samples(policy: Policy) -> None:
    decoding = SamplingParams(max_tokens=6)
    first, other = (policy.draw([PROMPTS[0]], 30, [seed], decoding) for seed in SEEDS[:2])
    assert first.texts != other.texts


def test_a_greedy_sample_takes_the_most_likely_token(policy: Policy) -> None:
    drawn = policy.draw(PROMPTS, 1, SEEDS, SamplingParams(temperature=0, max_tokens=5))
    for row, prompt in enumerate(PROMPTS):
        tokens = list(prompt)
        for token in drawn.rows.token_NT[row, : drawn.rows.length_N[row]].tolist():
            policy.loaded.model.set_attn_implementation("eager")
            with torch.inference_mode():
                assert policy.loaded.model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax() == token
            tokens.append(token)


def test_a_frozen_copy_stays_while_the_policy_moves(tmp_path: Path) -> None:
    policy = open_policy(str(tiny_model(tmp_path)))
    copy, decoding = frozen_copy(policy), SamplingParams(max_tokens=5)
    before = policy.draw(PROMPTS, 10, SEEDS, decoding)
    assert copy.draw(PROMPTS, 10, SEEDS, decoding).texts == before.texts
    with torch.no_grad():
        for weights in policy.loaded.model.parameters():
            weights.mul_(-1.5)
    assert policy.draw(PROMPTS, 10, SEEDS, decoding).texts != before.texts
    assert copy.draw(PROMPTS, 10, SEEDS, decoding).texts == before.texts
    assert not copy.logprobs(before.rows, 1.0).requires_grad
    assert policy.logprobs(before.rows, 1.0).requires_grad


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"bloom"}))
def test_every_family_is_drawn_from_and_read_alike(tmp_path: Path, family: str) -> None:
    policy = open_policy(str(tiny_model(tmp_path, family)))
    drawn = policy.draw(PROMPTS, 8, SEEDS, SamplingParams(max_tokens=8))
    result = policy.logprobs(drawn.rows, 1.0).detach().numpy()
    np.testing.assert_allclose(result[drawn.rows.token_mask_NT], drawn.logprob_NT[drawn.rows.token_mask_NT], atol=1e-3)


def test_a_model_with_a_window_is_read_by_plain_rows_and_rightly(tmp_path: Path) -> None:
    policy = open_policy(str(tiny_model(tmp_path, "mistral")))
    drawn = policy.draw(PROMPTS, 8, SEEDS, SamplingParams(max_tokens=12))
    result = policy.logprobs(drawn.rows, 1.0).detach().numpy()
    assert policy.trees is False
    for row in range(len(drawn.texts)):
        logprob_T, _ = plainly(policy, drawn.rows, row, 1.0)
        np.testing.assert_allclose(result[row, : len(logprob_T)], logprob_T, atol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_no_sample_goes_beyond_what_the_model_can_read(tmp_path: Path, family: str) -> None:
    many = (*(f"w{place}" for place in range(300)), *WORDS)  # the end is unlikely among them
    policy = open_policy(str(tiny_model(tmp_path, family, words=many)))
    with torch.no_grad():
        for weights in policy.loaded.model.parameters():
            weights.mul_(0.1)
    drawn = policy.draw([[0, 1]], 20, [SEEDS[0]], SamplingParams(max_tokens=200))
    assert drawn.rows.length_N.max() + 2 == 64


def test_a_trace_is_written_with_its_end(policy: Policy) -> None:
    assert policy.answer("a b c") == [0, 1, 2, END]


@pytest.mark.parametrize("name", ["vllm:org/model", "endpoint:http://localhost:1#m", "scripted:x"])
def test_models_of_other_kinds_are_refused(name: str) -> None:
    with pytest.raises(OffleashError, match=r"can be trained; found|There is no|cannot"):
        open_policy(name)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="has no model"):
        open_policy(str(tmp_path))


def test_a_model_that_the_engine_cannot_run_is_refused_with_the_tool_that_can(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"does not run on the shared-prefix engine .* TRL"):
        open_policy(str(tiny_model(tmp_path, "bloom")))


def test_a_model_without_an_end_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        path = folder / name
        document = {key: value for key, value in json.loads(path.read_text()).items() if not key.startswith("eos_")}
        path.write_text(json.dumps({**document, **({"eos_token_id": None} if name == "config.json" else {})}))
    with pytest.raises(OffleashError, match=r"no end-of-sequence token, .* Set eos_token"):
        open_policy(str(folder))


def test_the_lab_tokenizer_gives_back_what_it_reads_with_and_without_spaces() -> None:
    check_round_trip(open_policy(str(BASE)), ["3 4 5 6 = 24 :", "3+4=7,7*5=35,35-6=29", "3 + 4 = 7 , 7 * 5 = 35"])


def test_unknown_words_are_refused_with_the_text_and_what_came_back(policy: Policy) -> None:
    with pytest.raises(OffleashError, match=r"'a b zebra c' is decoded as 'a b c'"):
        check_round_trip(policy, ["a b", "a b zebra c"])


def test_a_tokenizer_that_changes_letters_is_refused(policy: Policy) -> None:
    lower = tokenizer()
    lower.backend_tokenizer.normalizer = normalizers.Lowercase()
    with pytest.raises(OffleashError, match="'a B c' is decoded as 'a b c'"):
        check_round_trip(replace(policy, loaded=replace(policy.loaded, tokenizer=lower)), ["a b", "a B c"])


def test_a_tokenizer_that_is_loaded_as_another_is_refused(tmp_path: Path) -> None:
    """Beside a qwen2 configuration a tokenizer of words is loaded as one of byte pairs: 3 4 comes back as 34."""
    folder = tiny_model(tmp_path, "qwen2", words=tuple(countdown_tokenizer().get_vocab()))
    countdown_tokenizer().save_pretrained(folder)
    policy, text = open_policy(str(folder)), "3 4 5 6 = 24 :"
    assert policy.loaded.tokenizer.encode(text) != countdown_tokenizer().encode(text)
    with pytest.raises(OffleashError, match="'3 4 5 6 = 24 :' is decoded as '3456=24:'"):
        check_round_trip(policy, [text])
