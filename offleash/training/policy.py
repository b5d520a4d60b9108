"""The policy: a model in training, sampled by the shared-prefix engine, and its log-probabilities with gradients."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from offleash.errors import OffleashError
from offleash.samplers.huggingface.attention import ATTENTION, UnsupportedError
from offleash.samplers.huggingface.forward import Network, open_network
from offleash.samplers.huggingface.loading import LoadedModel, load, settings_of
from offleash.samplers.huggingface.prefix_sampling import Walk, WalkLimits
from offleash.samplers.huggingface.prefix_tree import Tree
from offleash.samplers.huggingface.text import PromptEncoder, decode
from offleash.samplers.registry import Model, model_of, split_label
from offleash.samplers.sampler import TRUNCATED, Request, SamplingParams
from offleash.samplers.seeds import sample_seeds
from offleash.training.method import Flags, Floats, Ints, TokenBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHECKED_SAMPLES = 4  # samples on which trees are compared with plain rows before they are used


@dataclass(frozen=True)
class Samples:
    """Samples in the order of the prompts, `size` each."""

    rows: TokenBatch
    logprob_NT: Floats  # as drawn, at the temperature; 0 behind the end
    entropy_NT: Floats
    truncated_N: Flags
    texts: tuple[str, ...]


@dataclass
class Policy:
    """A model in memory, and the two ways it is run.

    Drawing goes through the engine's own attention (`network`), which keeps shared prefixes; gradients go through the
    model's forward pass with its own attention (`plain`) or with the tree attention below. Each sets the attention it
    needs first, because transformers holds one setting per model.
    """

    loaded: LoadedModel
    network: Network
    prompt_encoder: PromptEncoder
    limits: WalkLimits
    plain: str  # the attention with which gradients are computed: the model's own
    trees: bool | None = None  # whether gradients are computed on prefix trees; None: not checked yet

    def tokens(self, prompt: str) -> list[int]:
        """The tokens of a prompt."""
        tokens, error = self.prompt_encoder.encode(Request("", prompt, 0, 1, 0))
        if error:
            raise OffleashError(f"The prompt {prompt[:80]!r} cannot be encoded: {error}.")
        return tokens

    def answer(self, text: str) -> list[int]:
        """The tokens of a sample with this text, including the end-of-sequence token."""
        eos_id, ends = self.loaded.tokenizer.eos_token_id, self.loaded.ends
        return [*self.loaded.tokenizer.encode(text, add_special_tokens=False), eos_id if eos_id in ends else ends[0]]

    def draw(self, prompts: Sequence[list[int]], size: int, seeds: Sequence[int], decoding: SamplingParams) -> Samples:
        """`size` samples per prompt; a sample depends only on its prompt, its seed and the weights."""
        decoding = self._fit_to_context(prompts, decoding)
        self.loaded.model.eval()
        self.loaded.model.set_attn_implementation(ATTENTION)
        read = zip(prompts, self.network.prefill([list(prompt) for prompt in prompts]), strict=True)
        trees = [Tree(list(prompt), layers, logits[None].float()) for prompt, (layers, logits) in read]
        N, T = len(prompts) * size, decoding.max_tokens
        drawn = Samples(
            TokenBatch(
                prompts, np.repeat(np.arange(len(prompts)), size), np.zeros((N, T), np.int64), np.zeros(N, np.int64)
            ),
            np.zeros((N, T)),
            np.zeros((N, T)),
            np.zeros(N, np.bool_),
            (),
        )

        def on_tokens(sample_N: Ints, depth: int, added_N4: Floats) -> None:
            drawn.logprob_NT[sample_N, depth] = added_N4[:, 1]
            drawn.entropy_NT[sample_N, depth] = added_N4[:, 3]

        seed_N = np.concatenate([sample_seeds(seed, 0, size) for seed in seeds])
        ends = np.array(self.loaded.ends, np.int64)
        prefix_walk = Walk(
            self.network, decoding, ends, trees, drawn.rows.prompt_N, seed_N, self.limits, on_tokens=on_tokens
        )
        texts = [""] * N
        for ended in prefix_walk.run():
            length = ended.token_ET.shape[1]
            drawn.rows.token_NT[ended.sample_N, :length] = ended.token_ET[ended.sequence_N]
            drawn.rows.length_N[ended.sample_N] = length
            drawn.truncated_N[ended.sample_N] = ended.finish == TRUNCATED
            decoded = decode(self.loaded.tokenizer, ended.token_ET[:, : ended.text_length].tolist())
            for sample, sequence in zip(ended.sample_N.tolist(), ended.sequence_N.tolist(), strict=True):
                texts[sample] = decoded[sequence]
        if not np.isfinite(drawn.entropy_NT).all():
            raise OffleashError("The model's probabilities are NaN: training diverged.")
        return replace(drawn, texts=tuple(texts))

    def _fit_to_context(self, prompts: Sequence[list[int]], decoding: SamplingParams) -> SamplingParams:
        """The decoding, with no more tokens than the context has left after the longest prompt."""
        context, longest = self.loaded.context, max(map(len, prompts))
        if context is None or longest + decoding.max_tokens <= context:
            return decoding
        if longest >= context:
            raise OffleashError(
                f"A prompt has {longest} tokens, but the model's context is {context}. Leave out such problems."
            )
        return replace(decoding, max_tokens=context - longest)

    def is_finite(self, prompt: list[int]) -> bool:
        """Whether the model's weights and its logits after a prompt are finite."""
        self.loaded.model.set_attn_implementation(ATTENTION)
        ((_, logits),) = self.network.prefill([prompt])
        finite = all(bool(weights.isfinite().all()) for weights in self.loaded.model.parameters())
        return finite and bool(logits.isfinite().all())

    def logprobs(self, rows: TokenBatch, temperature: float) -> Tensor:
        """Log-probabilities (N, T) of tokens at a temperature, with gradients if torch has them enabled.

        By prefix trees if both ways agree on the first batch, else by plain rows.
        """
        self.loaded.model.set_attn_implementation(self.plain)
        if self.trees is None:
            self.trees = trees_agree(self.loaded.model, rows.part(np.arange(min(CHECKED_SAMPLES, len(rows.length_N)))))
        return (logprobs_by_trees if self.trees else logprobs_by_rows)(self.loaded.model, rows, temperature)


def policy_model(name: str) -> Model:
    """The model that a recipe names; without a prefix it is hf:, a folder or a name on the hub."""
    named = split_label(name)[1]
    model = model_of(named if ":" in named.split("/")[0] else f"hf:{named}")
    if model.sampler != "hf":
        raise OffleashError(f"Only transformers models can be trained; found {name}. Give one as hf:PATH.")
    return model


def open_policy(name: str) -> Policy:
    """Load a model by its name or folder, ready to be trained."""
    model = policy_model(name)
    settings = settings_of(model)
    if settings["dtype"] == "auto":
        settings["dtype"] = "float32"  # in half precision small steps of the optimizer round to nothing
    loaded_model = load(model, settings)
    if not loaded_model.ends:
        raise OffleashError(
            f"{name} has no end-of-sequence token, so its samples would never end. Set eos_token in its tokenizer."
        )
    plain = str(loaded_model.model.config._attn_implementation)
    try:
        network = open_network(loaded_model.model)
    except UnsupportedError as error:
        raise OffleashError(
            f"{name} does not run on the shared-prefix engine ({error}), which this trainer needs. Train it with TRL."
        ) from None
    limits = WalkLimits(memory=int(float(settings["memory"]) * 2**30), rows=int(float(settings["rows"])))
    return Policy(loaded_model, network, PromptEncoder(loaded_model.tokenizer, None, model.raw), limits, plain)


def check_round_trip(policy: Policy, texts: Sequence[str]) -> None:
    """Refuse a tokenizer that does not round-trip: the rewarded texts would not be the learned ones."""
    tokenizer = policy.loaded.tokenizer
    tokens: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
    round_trips = decode(tokenizer, tokens)
    for text, read, round_trip in zip(texts, tokens, round_trips, strict=True):
        if tokenizer.unk_token_id in read or not _same_text(text, round_trip):
            name = policy.loaded.model.config.name_or_path
            raise OffleashError(
                f"The tokenizer of {name or 'the model'} does not round-trip: {text[:60]!r} is decoded as "
                f"{round_trip[:60]!r}. The rewarded texts would differ from the learned ones. Save the model with the "
                "tokenizer that it was trained with (for a qwen2 configuration, transformers may load another one)."
            )


def _same_text(text: str, round_trip: str) -> bool:
    """Whether all characters and all gaps between words are preserved; additional gaps do no harm."""
    words, others = text.split(), round_trip.split()
    word_ends, other_word_ends = (set(accumulate(map(len, pieces))) for pieces in (words, others))
    return "".join(words) == "".join(others) and word_ends <= other_word_ends


def frozen_copy(policy: Policy) -> Policy:
    """A copy that is not trained: the reference, or the base."""
    model = deepcopy(policy.loaded.model)
    model.requires_grad_(False)
    # the network is checked against the model's own attention when it is opened: set that first
    model.set_attn_implementation(policy.plain)
    return replace(policy, loaded=replace(policy.loaded, model=model), network=open_network(model))


# Prefix trees of samples, and an attention function, registered with transformers, in which each distinct sample is a
# row. Everything else in a transformer acts on single positions: there a shared prefix is computed once, forward and
# backward. Only attention looks at other positions, and there the nodes are gathered into the rows of the samples.


BRANCH_ATTENTION = "offleash_branches"
SHORT_ROW = 64  # tokens per row up to which one matrix product is quicker than torch's tiled attention

_layout: ContextVar["Layout"] = ContextVar("layout")


@dataclass(frozen=True)
class Trees:
    """M nodes, prompts first, and the S distinct samples that they are the branches of."""

    token_M: Ints
    depth_M: Ints
    node_SL: Ints  # the path of every distinct sample, prompt included; beyond its end its last node again
    index_M: Ints  # one position of each node in the flattened paths, from which its output is taken
    parent_NT: Ints  # the node that each token of a sample follows


def trees_of(rows: TokenBatch) -> Trees:
    """The trees of all prompts, built level by level. The last token of a sample is no node: nothing follows it."""
    N, T = rows.token_NT.shape
    length_B = np.array([len(prompt) for prompt in rows.prompts], np.int64)
    first_B = np.cumsum(length_B) - length_B
    token = [np.concatenate([np.asarray(prompt, np.int64) for prompt in rows.prompts])]
    depth = [np.concatenate([np.arange(length) for length in length_B])]
    parent_NT = np.empty((N, T), np.int64)
    node_N = (first_B + length_B - 1)[rows.prompt_N]  # the node that each sample has reached
    parent_NT[:, 0], count = node_N, len(token[0])
    for level in range(T - 1):
        continuing_N = np.flatnonzero(rows.length_N > level + 1)
        # a child is its parent and its token, packed into one integer: samples that share both share the child
        key = node_N[continuing_N] << 32 | rows.token_NT[continuing_N, level]
        distinct, node = np.unique(key, return_inverse=True)
        node_N[continuing_N] = count + node
        token.append(distinct & 0xFFFFFFFF)
        level_by_node = np.empty(len(distinct), np.int64)
        level_by_node[node] = length_B[rows.prompt_N[continuing_N]] + level
        depth.append(level_by_node)
        count += len(distinct)
        parent_NT[:, level + 1] = node_N
    node_SL = _paths(rows, parent_NT, length_B, first_B)
    index_M = np.empty(count, np.int64)
    index_M[node_SL.ravel()[::-1]] = np.arange(node_SL.size)[
        ::-1
    ]  # the first position of a node, never one after an end
    return Trees(np.concatenate(token), np.concatenate(depth), node_SL, index_M, parent_NT)


def _paths(rows: TokenBatch, parent_NT: Ints, length_B: Ints, first_B: Ints) -> Ints:
    """The nodes of every distinct sample, from the first token of its prompt."""
    path_ST = np.unique(np.concatenate([rows.prompt_N[:, None], parent_NT], 1), axis=0)
    prompt_S, path_ST = path_ST[:, 0], path_ST[:, 1:]
    T, longest = path_ST.shape[1], int(length_B.max())
    node_SL = np.repeat(path_ST[:, -1:], longest + T - 1, 1)
    for length in np.unique(length_B):  # a prompt's last node is the first of the way
        rows_S = np.flatnonzero(length_B[prompt_S] == length)
        node_SL[rows_S, : length - 1] = first_B[prompt_S[rows_S], None] + np.arange(length - 1)
        node_SL[rows_S, length - 1 : length - 1 + T] = path_ST[rows_S]
    return node_SL


@dataclass(frozen=True)
class Layout:
    """The indices that the attention gathers and scatters by."""

    node_SL: Tensor
    index_M: Tensor

    @classmethod
    def of(cls, trees: Trees, device: torch.device) -> "Layout":
        return cls(torch.from_numpy(trees.node_SL).to(device), torch.from_numpy(trees.index_M).to(device))


@contextmanager
def use_layout(layout: Layout) -> Iterator[None]:
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
        raise ValueError(
            "attention with sliding windows, soft caps, sinks or biases is not supported here"
        )  # the model is then read by plain rows
    query_rows, key_rows, value_rows = (_gather_rows(states, layout) for states in (query, key, value))
    attended = _causal(query_rows, key_rows, value_rows, scale if isinstance(scale, float) else query.shape[-1] ** -0.5)
    flat = attended.transpose(1, 2).reshape(layout.node_SL.numel(), query.shape[1], -1)
    return flat.index_select(0, layout.index_M)[None], None


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Causal attention over rows. Padding comes after a sample, where causality hides it: no other mask is needed."""
    L, grouped_query = query.shape[2], query.shape[1] != key.shape[1]
    if L > SHORT_ROW:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=grouped_query)
    if grouped_query:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    future_mask = torch.ones(L, L, dtype=torch.bool, device=query.device).triu(1)
    scores = torch.matmul(query * scale, key.transpose(2, 3)).masked_fill(future_mask, -torch.inf)
    return torch.matmul(torch.softmax(scores, -1), value)


def _gather_rows(nodes: Tensor, layout: Layout) -> Tensor:
    """States of nodes, (1, heads, M, width), as rows of samples: (S, heads, L, width)."""
    rows = nodes[0].transpose(0, 1).index_select(0, layout.node_SL.view(-1))
    return rows.view(*layout.node_SL.shape, nodes.shape[1], nodes.shape[3]).transpose(1, 2)


# Log-probabilities of samples with their gradient: prefixes that samples share go through the model once.
#
# The samples of a prompt form a tree: the prompt, then their tokens, equal prefixes merged. All nodes of all trees are
# one long row of the model's input without padding; only in the attention is every distinct sample laid out as a row of
# its own, so each token has the logits it would have in its own sample.


TREE_TOLERANCE = 1e-3  # nats by which log-probabilities by trees may differ from those by plain rows


def logprobs_by_trees(model: "PreTrainedModel", rows: TokenBatch, temperature: float) -> Tensor:
    """Log-probabilities (N, T) of the tokens at a temperature, each distinct prefix computed once."""
    trees, device = trees_of(rows), next(model.parameters()).device
    original_attention = model.config._attn_implementation
    register()
    model.set_attn_implementation(BRANCH_ATTENTION)
    try:
        with use_layout(Layout.of(trees, device)):
            logits = model(
                input_ids=torch.from_numpy(trees.token_M[None]).to(device),
                position_ids=torch.from_numpy(trees.depth_M[None]).to(device),
                use_cache=False,
            ).logits[0]
    finally:
        model.set_attn_implementation(original_attention)
    logprob_MV = torch.log_softmax(logits.float() / temperature, -1)
    parent, token = (torch.from_numpy(array).to(device) for array in (trees.parent_NT, rows.token_NT))
    return logprob_MV[parent, token]


def logprobs_by_rows(model: "PreTrainedModel", rows: TokenBatch, temperature: float) -> Tensor:
    """The same with one padded row per sample, for models with their own attention."""
    device = next(model.parameters()).device
    prompt_length = np.array([len(prompt) for prompt in rows.prompts])[rows.prompt_N]
    longest = int((prompt_length + rows.length_N).max())
    input_NL = np.zeros((len(rows.prompt_N), longest), np.int64)
    for row, (prompt_index, length) in enumerate(zip(rows.prompt_N, rows.length_N, strict=True)):
        sequence = [*rows.prompts[prompt_index], *rows.token_NT[row, :length].tolist()]
        input_NL[row, : len(sequence)] = sequence
    mask_NL = np.arange(longest) < (prompt_length + rows.length_N)[:, None]
    logits = model(
        input_ids=torch.from_numpy(input_NL).to(device),
        attention_mask=torch.from_numpy(mask_NL.astype(np.int64)).to(device),
        use_cache=False,
    ).logits
    parent_NT = prompt_length[:, None] - 1 + np.arange(rows.token_NT.shape[1])
    parent = torch.from_numpy(np.minimum(parent_NT, longest - 1)).to(device)
    chosen = torch.take_along_dim(logits.float(), parent[..., None], 1) / temperature
    token = torch.from_numpy(rows.token_NT).to(device)
    return torch.log_softmax(chosen, -1).gather(-1, token[..., None])[..., 0]


def trees_agree(model: "PreTrainedModel", rows: TokenBatch) -> bool:
    """Whether trees and plain rows agree for a model: one with its own attention may not."""
    with torch.no_grad():
        try:
            difference = logprobs_by_trees(model, rows, 1.0) - logprobs_by_rows(model, rows, 1.0)
        except (ValueError, RuntimeError, TypeError):  # the model does not support our attention function
            return False
    token_mask = torch.from_numpy(rows.token_mask_NT).to(difference.device)
    return bool(difference[token_mask].abs().max() <= TREE_TOLERANCE)
