"""Log-probabilities of samples with their gradient: beginnings that samples share go through the model once.

The samples of a prompt form a tree: the prompt, then their tokens, equal beginnings merged. All nodes of all trees are
one long row of the model's input without padding; only in the attention is every distinct sample laid out as a row of
its own, so each token has the logits it would have in its own sample.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from offleash.training.branches import BRANCH_ATTENTION, Layout, attending, register, trees_of
from offleash.training.rows import Rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AGREE = 1e-3  # how near log-probabilities by trees must be to those of plain rows, in nats


def by_trees(model: "PreTrainedModel", rows: Rows, temperature: float) -> Tensor:
    """Log-probabilities (N, T) of the tokens at a temperature, each distinct beginning read once."""
    trees, device = trees_of(rows), next(model.parameters()).device
    before = model.config._attn_implementation
    register()
    model.set_attn_implementation(BRANCH_ATTENTION)
    try:
        with attending(Layout.of(trees, device)):
            logits = model(
                input_ids=torch.from_numpy(trees.token_M[None]).to(device),
                position_ids=torch.from_numpy(trees.depth_M[None]).to(device),
                use_cache=False,
            ).logits[0]
    finally:
        model.set_attn_implementation(before)
    logprob_MV = torch.log_softmax(logits.float() / temperature, -1)
    after, token = (torch.from_numpy(one).to(device) for one in (trees.after_NT, rows.token_NT))
    return logprob_MV[after, token]


def by_rows(model: "PreTrainedModel", rows: Rows, temperature: float) -> Tensor:
    """The same with one row a sample, for models that take no mask of ours."""
    device = next(model.parameters()).device
    prompt_length = np.array([len(prompt) for prompt in rows.prompts])[rows.prompt_N]
    longest = int((prompt_length + rows.length_N).max())
    input_NL = np.zeros((len(rows.prompt_N), longest), np.int64)
    for row, (which, length) in enumerate(zip(rows.prompt_N, rows.length_N, strict=True)):
        whole = [*rows.prompts[which], *rows.token_NT[row, :length].tolist()]
        input_NL[row, : len(whole)] = whole
    mask_NL = np.arange(longest) < (prompt_length + rows.length_N)[:, None]
    logits = model(
        input_ids=torch.from_numpy(input_NL).to(device),
        attention_mask=torch.from_numpy(mask_NL.astype(np.int64)).to(device),
        use_cache=False,
    ).logits
    after_NT = prompt_length[:, None] - 1 + np.arange(rows.token_NT.shape[1])
    after = torch.from_numpy(np.minimum(after_NT, longest - 1)).to(device)
    chosen = torch.take_along_dim(logits.float(), after[..., None], 1) / temperature
    token = torch.from_numpy(rows.token_NT).to(device)
    return torch.log_softmax(chosen, -1).gather(-1, token[..., None])[..., 0]


def trees_agree(model: "PreTrainedModel", rows: Rows) -> bool:
    """Whether a model gives the same by trees as by plain rows: one with attention of its own may not."""
    with torch.no_grad():
        try:
            difference = by_trees(model, rows, 1.0) - by_rows(model, rows, 1.0)
        except (ValueError, RuntimeError, TypeError):  # of a model that does not take such a mask
            return False
    real = torch.from_numpy(rows.real_NT).to(difference.device)
    return bool(difference[real].abs().max() <= AGREE)
