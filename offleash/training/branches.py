"""Trees of samples, and the attention in which each distinct sample is a row: plugged into transformers by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from offleash.training.method import Ints
from offleash.training.rows import Rows

BRANCH_ATTENTION = "offleash_branches"
SHORT = 64  # tokens of a row up to which its attention is one product

_layout: ContextVar["Layout"] = ContextVar("layout")


@dataclass(frozen=True)
class Trees:
    """M nodes, prompts first, and the S distinct samples that they are the branches of."""

    token_M: Ints
    depth_M: Ints
    node_SL: Ints  # the way of every distinct sample, prompt included; behind its end its last node again
    place_M: Ints  # where each node stands in the flattened ways
    after_NT: Ints  # the node that each token of a sample follows


def trees_of(rows: Rows) -> Trees:
    """The tree of every prompt. The last token of a sample is no node, since nothing follows it."""
    N, T = rows.token_NT.shape
    length_B = np.array([len(prompt) for prompt in rows.prompts], np.int64)
    first_B = np.cumsum(length_B) - length_B
    token = [np.concatenate([np.asarray(prompt, np.int64) for prompt in rows.prompts])]
    depth = [np.concatenate([np.arange(length) for length in length_B])]
    after_NT = np.empty((N, T), np.int64)
    at_N = (first_B + length_B - 1)[rows.prompt_N]  # the node that each sample stands on
    after_NT[:, 0], count = at_N, len(token[0])
    for level in range(T - 1):
        going = np.flatnonzero(rows.length_N > level + 1)
        key = at_N[going] << 32 | rows.token_NT[going, level]
        distinct, node = np.unique(key, return_inverse=True)
        at_N[going] = count + node
        token.append(distinct & 0xFFFFFFFF)
        level_of = np.empty(len(distinct), np.int64)
        level_of[node] = length_B[rows.prompt_N[going]] + level
        depth.append(level_of)
        count += len(distinct)
        after_NT[:, level + 1] = at_N
    node_SL = _ways(rows, after_NT, length_B, first_B)
    place_M = np.empty(count, np.int64)
    place_M[node_SL.ravel()[::-1]] = np.arange(node_SL.size)[::-1]  # the first place of a node, never one behind an end
    return Trees(np.concatenate(token), np.concatenate(depth), node_SL, place_M, after_NT)


def _ways(rows: Rows, after_NT: Ints, length_B: Ints, first_B: Ints) -> Ints:
    """The nodes of every distinct sample from the first token of its prompt on."""
    way_ST = np.unique(np.concatenate([rows.prompt_N[:, None], after_NT], 1), axis=0)
    prompt_S, way_ST = way_ST[:, 0], way_ST[:, 1:]
    T, longest = way_ST.shape[1], int(length_B.max())
    node_SL = np.repeat(way_ST[:, -1:], longest + T - 1, 1)
    for length in np.unique(length_B):  # a prompt's last node is the first of the way
        mine = np.flatnonzero(length_B[prompt_S] == length)
        node_SL[mine, : length - 1] = first_B[prompt_S[mine], None] + np.arange(length - 1)
        node_SL[mine, length - 1 : length - 1 + T] = way_ST[mine]
    return node_SL


@dataclass(frozen=True)
class Layout:
    """Where the attention finds every sample."""

    node_SL: Tensor
    place_M: Tensor

    @classmethod
    def of(cls, trees: Trees, device: torch.device) -> "Layout":
        return cls(torch.from_numpy(trees.node_SL).to(device), torch.from_numpy(trees.place_M).to(device))


@contextmanager
def attending(layout: Layout) -> Iterator[None]:
    token = _layout.set(layout)
    try:
        yield
    finally:
        _layout.reset(token)


def register() -> None:
    """Make the function known to transformers by its name."""
    from transformers import AttentionInterface

    AttentionInterface.register(BRANCH_ATTENTION, attention)


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: object
) -> tuple[Tensor, None]:
    """The attention of one layer over all nodes: (1, heads, M, width) in, (1, M, heads, width) out."""
    layout, scale = _layout.get(), options.get("scaling")
    if any(options.get(name) is not None for name in ("sliding_window", "softcap", "s_aux", "position_bias")):
        raise ValueError("windows, caps, sinks or biases")  # the model is then read by plain rows
    query_rows, key_rows, value_rows = (_laid_out(one, layout) for one in (query, key, value))
    out = _causal(query_rows, key_rows, value_rows, scale if isinstance(scale, float) else query.shape[-1] ** -0.5)
    flat = out.transpose(1, 2).reshape(layout.node_SL.numel(), query.shape[1], -1)
    return flat.index_select(0, layout.place_M)[None], None


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Every token sees itself and what stands before it. Short rows are one product: quicker than tiles."""
    L, shared = query.shape[2], query.shape[1] != key.shape[1]
    if L > SHORT:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=shared)
    if shared:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    later = torch.ones(L, L, dtype=torch.bool, device=query.device).triu(1)
    scores = torch.matmul(query * scale, key.transpose(2, 3)).masked_fill(later, -torch.inf)
    return torch.matmul(torch.softmax(scores, -1), value)


def _laid_out(nodes: Tensor, layout: Layout) -> Tensor:
    """What nodes hold, (1, heads, M, width), as rows of samples: (S, heads, L, width)."""
    rows = nodes[0].transpose(0, 1).index_select(0, layout.node_SL.view(-1))
    return rows.view(*layout.node_SL.shape, nodes.shape[1], nodes.shape[3]).transpose(1, 2)
