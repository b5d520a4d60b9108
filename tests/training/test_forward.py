"""Forward passes: what trees and padded rows give is what one plain pass a sample gives, gradients included."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from offleash.training.method import TokenBatch
from offleash.training.policy import logprobs_by_rows, logprobs_by_trees, trees_agree, trees_of
from tests.samplers.huggingface.tiny import END, FAMILIES, tiny_model

WINDOWED = ("mistral", "gemma2", "gemma3_text")  # attention that trees do not have
TREES = ("llama", "qwen2", "qwen3", "phi3", "olmo2", "granite", "smollm3", "gpt2", "gpt_neox")
PROMPTS = ([0, 1, 2, 3, 1], [2], [1, 1, 0])
SAMPLES = (  # of each prompt
    ([3, 2, END], [3, 2, END], [3, 2, 0, 1, END], [3, 2], [END], [0, 1, 2, 3, 0, 1, 2, 3]),
    ([END], [1, END]),
    ([0, 0, 0, END], [0], [0, 0, 0, END]),
)


def rows_of(prompts: Sequence[Sequence[int]], samples: Sequence[Sequence[Sequence[int]]]) -> TokenBatch:
    flat = [sample for group in samples for sample in group]
    token_NT = np.zeros((len(flat), max(map(len, flat))), np.int64)
    for row, sample in enumerate(flat):
        token_NT[row, : len(sample)] = sample
    prompt_N = np.repeat(np.arange(len(prompts)), [len(group) for group in samples])
    return TokenBatch(prompts, prompt_N, token_NT, np.array([len(sample) for sample in flat]))


ROWS = rows_of(PROMPTS, SAMPLES)


def model_of(folder: Path, family: str) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(tiny_model(folder, family)).eval()
    return model


def plainly(model: PreTrainedModel, rows: TokenBatch, temperature: float) -> torch.Tensor:
    """The same by one forward pass a sample, without padding; zeros behind the end."""
    all_NT = []
    for which, token_T, length in zip(rows.prompt_N, rows.token_NT.tolist(), rows.length_N, strict=True):
        prompt = list(rows.prompts[which])
        logits = model(input_ids=torch.tensor([[*prompt, *token_T[:length]]])).logits[0] / temperature
        logprob = torch.log_softmax(logits, -1)[range(len(prompt) - 1, len(prompt) + length - 1), token_T[:length]]
        all_NT.append(torch.nn.functional.pad(logprob, (0, len(token_T) - length)))
    return torch.stack(all_NT)


def weighted(logprob_NT: torch.Tensor, rows: TokenBatch) -> torch.Tensor:
    """A loss in which every token has a weight of its own."""
    weight_NT = torch.from_numpy(np.random.default_rng(3).normal(size=rows.token_NT.shape)).float()
    return torch.where(torch.from_numpy(rows.token_mask_NT), logprob_NT * weight_NT, 0.0).sum()


def gradients(model: PreTrainedModel, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def assert_near(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", TREES)
def test_trees_give_the_log_probabilities_and_gradients_of_plain_passes(tmp_path: Path, family: str) -> None:
    model, real = model_of(tmp_path, family), torch.from_numpy(ROWS.token_mask_NT)
    expected, actual = plainly(model, ROWS, 1.3), logprobs_by_trees(model, ROWS, 1.3)
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-4, atol=1e-4)
    assert_near(gradients(model, weighted(actual, ROWS)), gradients(model, weighted(expected, ROWS)))


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", *WINDOWED])
def test_rows_give_the_log_probabilities_and_gradients_of_plain_passes(tmp_path: Path, family: str) -> None:
    model, real = model_of(tmp_path, family), torch.from_numpy(ROWS.token_mask_NT)
    expected, actual = plainly(model, ROWS, 0.7), logprobs_by_rows(model, ROWS, 0.7)
    torch.testing.assert_close(actual[real], expected[real], rtol=1e-4, atol=1e-4)
    assert_near(gradients(model, weighted(actual, ROWS)), gradients(model, weighted(expected, ROWS)))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_where_trees_are_said_to_agree_they_do_and_windows_do_not(tmp_path: Path, family: str) -> None:
    model, real = model_of(tmp_path, family), torch.from_numpy(ROWS.token_mask_NT)
    before = model.config._attn_implementation
    agree = trees_agree(model, ROWS)
    assert model.config._attn_implementation == before
    assert agree or family not in TREES
    assert not (agree and family in WINDOWED)
    if agree:
        torch.testing.assert_close(
            logprobs_by_trees(model, ROWS, 1.0)[real], plainly(model, ROWS, 1.0)[real], rtol=0, atol=1e-3
        )


def test_gradients_of_parts_add_up_to_that_of_all(tmp_path: Path) -> None:
    model = model_of(tmp_path, "llama")
    weight_NT = torch.from_numpy(np.random.default_rng(3).normal(size=ROWS.token_NT.shape) * ROWS.token_mask_NT).float()
    whole = gradients(model, (logprobs_by_trees(model, ROWS, 1.0) * weight_NT).sum())
    for tokens in (1, 15, 30, 1000):
        parts = list(ROWS.parts(tokens))
        assert np.concatenate(parts).tolist() == list(range(len(ROWS.length_N)))
        model.zero_grad()
        for samples in parts:
            (logprobs_by_trees(model, ROWS.part(samples), 1.0) * weight_NT[samples]).sum().backward()
        summed = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
        assert_near(summed, whole)


def test_parts_hold_no_more_tokens_than_allowed_unless_one_sample_alone_does() -> None:
    size_N = ROWS.length_N + np.array([len(PROMPTS[place]) for place in ROWS.prompt_N])
    for tokens in range(1, int(size_N.sum()) + 2):
        parts = list(ROWS.parts(tokens))
        assert all(size_N[part].sum() <= tokens or len(part) == 1 for part in parts)
        assert np.concatenate(parts).tolist() == list(range(len(size_N)))


def test_every_distinct_beginning_is_one_node() -> None:
    trees = trees_of(ROWS)
    beginnings = {
        (which, *tokens[:end])
        for which, tokens, length in zip(ROWS.prompt_N.tolist(), ROWS.token_NT.tolist(), ROWS.length_N, strict=True)
        for end in range(1, length)  # the last token of a sample is read by nothing
    }
    assert len(trees.token_M) == sum(map(len, PROMPTS)) + len(beginnings)


def test_one_sample_of_one_token_needs_the_prompt_alone(tmp_path: Path) -> None:
    model, rows = model_of(tmp_path, "qwen3"), rows_of([[0, 1]], [[[2]]])
    assert len(trees_of(rows).token_M) == 2
    torch.testing.assert_close(logprobs_by_trees(model, rows, 1.0), plainly(model, rows, 1.0), rtol=1e-5, atol=1e-5)
