"""Attention over a prompt that many rows share, registered with transformers, and buffers of their keys and values.

transformers calls a registered function for the attention of every layer (AttentionInterface), so no architecture is
reimplemented. The keys and values of a prompt are kept once, those of each row's own tokens in a slot; a row attends to
both.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

# Slots: keys and values of rows, one slot per row, in buffers that are written in place and grow when they must.
#
# Invariants:
# * A row's slot holds its own tokens from position 0 on, without gaps; the prompt before them is shared (`Prompts`) or,
#   where prompts are short and many, copied into the slot.
# * All rows of a forward pass hold the same number of cached tokens, so one slice writes the new ones of all rows.
# * Buffers start as zeros, never `empty`: positions that are not yet written are multiplied by a probability of 0, and
#   0 times NaN would be NaN.


@dataclass
class Layer:
    """Keys and values of one layer: (slots, heads, tokens, width). Allocated when the first ones come."""

    slots: int  # capacity
    tokens: int  # capacity of each slot
    keys: Tensor = field(default_factory=lambda: torch.empty(0))
    values: Tensor = field(default_factory=lambda: torch.empty(0))

    def append(self, start: int, stop: int, cached: int, key: Tensor, value: Tensor) -> None:
        """Write the new tokens of rows [start, stop), which hold `cached` tokens already."""
        if not self.keys.numel():
            self.keys = key.new_zeros(self.slots, key.shape[1], self.tokens, key.shape[3])
            self.values = torch.zeros_like(self.keys)
        self.keys[start:stop, :, cached : cached + key.shape[2]] = key
        self.values[start:stop, :, cached : cached + key.shape[2]] = value

    def view(self, start: int, stop: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Keys and values of rows [start, stop) as (rows * heads, tokens, width), for `bmm`; no copy."""
        shape = (-1, self.keys.shape[2], self.keys.shape[3])
        return self.keys[start:stop].view(shape)[:, :tokens], self.values[start:stop].view(shape)[:, :tokens]

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copy slots onto others. All sources are read before a target is written, so chains of moves are safe."""
        for buffer in (self.keys, self.values):  # whole slots: one block of memory each, quicker than parts of them
            buffer.index_copy_(0, target, buffer.index_select(0, source))

    def resize(self, slots: int, tokens: int, kept_rows: int, kept_tokens: int) -> None:
        """Reallocate; the first `kept_rows` rows keep their first `kept_tokens` tokens."""
        self.slots, self.tokens = slots, tokens
        for name in ("keys", "values"):
            old_buffer: Tensor = getattr(self, name)
            new_buffer = old_buffer.new_zeros(slots, old_buffer.shape[1], tokens, old_buffer.shape[3])
            new_buffer[:kept_rows, :, :kept_tokens] = old_buffer[:kept_rows, :, :kept_tokens]
            setattr(self, name, new_buffer)
            del old_buffer  # before the next buffer is allocated: only one is ever held twice


@dataclass
class Slots:
    """The slots of a walk: keys and values of its rows in every layer."""

    layers: list[Layer]
    slots: int  # capacity
    tokens: int  # capacity of each slot

    @classmethod
    def allocate(cls, layers: int, slots: int, tokens: int) -> "Slots":
        """Slots whose buffers take their shape from the first keys that are written."""
        return cls([Layer(slots, tokens) for _ in range(layers)], slots, tokens)

    @classmethod
    def allocate_like(cls, layers: list[Layer], slots: int, tokens: int) -> "Slots":
        """Empty slots for the model that these layers belong to."""
        empty = []
        for layer in layers:
            keys = layer.keys.new_zeros(slots, layer.keys.shape[1], tokens, layer.keys.shape[3])
            empty.append(Layer(slots, tokens, keys, torch.zeros_like(keys)))
        return cls(empty, slots, tokens)

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copy slots onto others, in every layer."""
        if len(source):
            for layer in self.layers:
                layer.copy(source, target)

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token in all layers."""
        return sum(2 * layer.keys.shape[1] * layer.keys.shape[3] * layer.keys.itemsize for layer in self.layers)

    def token_capacity(self, tokens: int) -> int:
        """The capacity of a slot once it has to hold `tokens`: grown by half, so that reallocation is rare."""
        return self.tokens if tokens <= self.tokens else max(tokens, self.tokens * 3 // 2, 16)

    def reserve(self, slots: int, tokens: int, kept_rows: int, kept_tokens: int, max_slots: int = 1 << 62) -> None:
        """Grow to at least `slots` slots of `tokens` tokens; the first rows keep their tokens, as in `Layer.resize`.

        Twice as many slots as needed are allocated, for the branches to come, but no more than `max_slots`.
        """
        if slots <= self.slots and tokens <= self.tokens:
            return
        self.tokens = self.token_capacity(tokens)
        self.slots = max(slots, min(max(2 * slots, self.slots), max_slots))
        for layer in self.layers:
            layer.resize(self.slots, self.tokens, min(kept_rows, self.slots), kept_tokens)


# The attention function, and the layout of rows by prompt.


ATTENTION = "offleash"
MIN_KEYS = 16  # keys per row in a product: torch multiplies matrices of less than 400 products in a slow loop
MAX_PADDING = 4  # blocks may hold this many times the rows; beyond it, each row takes a copy of its prompt instead

_attending: ContextVar["AttentionContext"] = ContextVar("attending")


class UnsupportedError(Exception):
    """The model's attention is of a kind that this function does not compute; generate.py runs the model."""


@dataclass(frozen=True)
class Blocks:
    """Rows grouped by prompt into blocks of equal size, so that one product per prompt serves all its rows.

    Without blocks, every row would multiply a copy of its prompt's keys: R copies in place of G.
    """

    prompts: Tensor  # those that have rows
    index_R: Tensor  # where each row goes, in the blocks one after another
    block_rows: int  # of the largest block; the others are padded to it


@dataclass(frozen=True)
class Prompts:
    """The prompts of a batch: their keys and values, and which of them each row continues."""

    layers: list[Layer]  # one slot per prompt, padded to the longest
    length_G: Tensor
    prompt_R: Tensor
    longest: int  # an int, since reading it from length_G would wait for the GPU in every layer
    blocks: Blocks | None  # None: one prompt, or too uneven to be laid out in blocks

    @classmethod
    def of(cls, layers: list[Layer], length_G: Tensor, prompt_R: Tensor) -> "Prompts":
        """The prompts of rows; the layout is decided here, once per forward pass and not once per layer."""
        blocks = _prompt_blocks(prompt_R) if len(length_G) > 1 else None
        if blocks is not None and len(blocks.prompts) * blocks.block_rows > MAX_PADDING * len(prompt_R):
            blocks = None
        return cls(layers, length_G, prompt_R, int(length_G.max()), blocks)


@dataclass(frozen=True)
class AttentionContext:
    """What a forward pass over rows [start, stop) needs to know beside its tokens."""

    layers: list[Layer]  # the rows' own keys and values
    start: int
    stop: int
    cached: int  # tokens that the rows hold already
    prompts: Prompts | None = None
    windows: dict[int, int] | None = None  # filled, unless None, with the sliding window that each layer asks for


@contextmanager
def attending(state: AttentionContext) -> Iterator[None]:
    """Let `attention` see a context, which transformers would not pass through its layers.

    A ContextVar, since threads may run two models.
    """
    token = _attending.set(state)
    try:
        yield
    finally:
        _attending.reset(token)


def register() -> None:
    """Make the function known to transformers by its name."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attention)


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: object
) -> tuple[Tensor, None]:
    """The attention of one layer: (rows, heads, tokens, width) in, (rows, tokens, heads, width) out.

    transformers calls it with queries and keys that already carry their rotary positions. Whatever it would mean by an
    argument that is not handled here must be refused, not ignored: `open_network` compares logits on a short text only.
    """
    state, layer = _attending.get(), module.layer_idx
    if mask is not None or options.get("s_aux") is not None or options.get("position_bias") is not None:
        raise UnsupportedError("attention masks, sinks or biases are not supported here")
    if key.shape[-1] != value.shape[-1]:
        raise UnsupportedError("keys and values of different widths are not supported here")
    assert isinstance(layer, int)
    scale, window, cap = (options.get(name) for name in ("scaling", "sliding_window", "softcap"))
    query = query * (scale if isinstance(scale, float | int) else query.shape[-1] ** -0.5)
    state.layers[layer].append(state.start, state.stop, state.cached, key, value)
    if state.windows is not None:
        state.windows[layer] = window if isinstance(window, int) else 0
    window, cap = (window if isinstance(window, int) else 0), (float(cap) if isinstance(cap, float | int) else 0.0)
    return (_attend_next_token if query.shape[2] == 1 else _attend_many_tokens)(state, layer, query, window, cap), None


def _attend_next_token(state: AttentionContext, layer: int, query: Tensor, window: int, cap: float) -> Tensor:
    """One new token per row: scores against the shared prompt and against the row's own tokens, one softmax over both.

    The scores of a row are laid side by side, prompt first (L columns), so the softmax is that of ordinary attention:
    which buffer a key lies in makes no difference to the result.
    """
    R, heads, _, width = query.shape
    layer_cache, total = state.layers[layer], state.cached + 1
    padded_length = max(total, min(MIN_KEYS, layer_cache.tokens))
    key, value = layer_cache.view(state.start, state.stop, padded_length)
    kv_heads = key.shape[0] // R  # several heads of queries may share one (grouped-query attention)
    query = query.reshape(R * kv_heads, heads // kv_heads, width)
    L = state.prompts.longest if state.prompts is not None else 0
    scores = query.new_empty(R, kv_heads, heads // kv_heads, L + padded_length)
    scores[..., L:] = torch.bmm(query, key.transpose(1, 2)).view(R, kv_heads, heads // kv_heads, padded_length)
    if state.prompts is not None:
        scores[..., :L] = _to_prompts(state.prompts, layer, query, R)
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if state.prompts is not None:
        _mask_unused(scores[..., :L], state.prompts, state.cached, window)
    scores[..., L + total :] = -torch.inf  # positions that are there for speed alone, or left by an earlier row
    if window and total > window:
        scores[..., L : L + total - window] = -torch.inf
    attention_weights = torch.softmax(scores, -1)
    out = torch.bmm(attention_weights[..., L:].reshape(R * kv_heads, -1, padded_length), value)
    if state.prompts is not None:
        out += _from_prompts(state.prompts, layer, attention_weights[..., :L])
    return out.view(R, 1, heads, width)


def _mask_unused(scores: Tensor, prompts: Prompts, cached: int, window: int) -> None:
    """Mask the padding of shorter prompts, and what lies before the window."""
    if len(prompts.length_G) == 1 and not (window and prompts.longest + cached >= window):
        return
    position_L = torch.arange(prompts.longest, device=scores.device)
    length_R = prompts.length_G[prompts.prompt_R][:, None]
    masked_RL = position_L >= length_R
    if window:
        # the new token is at position length + cached, and sees the `window` positions that end with its own
        masked_RL |= position_L <= length_R + cached - window
    scores.masked_fill_(masked_RL[:, None, None, :], -torch.inf)


def _to_prompts(prompts: Prompts, layer: int, query: Tensor, R: int) -> Tensor:
    """Scores (rows, kv_heads, repeats, L) of queries (rows * kv_heads, repeats, width) against each row's prompt.

    `repeats` are the heads of queries that share a head of keys.
    """
    keys = prompts.layers[layer].keys[:, :, : prompts.longest]
    kv_heads, repeats, width = query.shape[0] // R, query.shape[1], query.shape[2]
    if len(keys) > 1 and prompts.blocks is None:
        prompt_keys = keys[prompts.prompt_R].view(R * kv_heads, -1, width)
        return torch.bmm(query, prompt_keys.transpose(1, 2)).view(R, kv_heads, repeats, -1)
    blocked = _to_blocks(query.view(R, kv_heads, repeats, width), prompts)
    block_keys = (
        keys if prompts.blocks is None or len(prompts.blocks.prompts) == len(keys) else keys[prompts.blocks.prompts]
    )
    scores = blocked @ block_keys.transpose(2, 3)
    return _from_blocks(scores, prompts, R, repeats)


def _from_prompts(prompts: Prompts, layer: int, attention_weights: Tensor) -> Tensor:
    """The part of the attention's output that comes from the prompts' values: (rows * kv_heads, repeats, width)."""
    values = prompts.layers[layer].values[:, :, : prompts.longest]
    R, kv_heads, repeats, _ = attention_weights.shape
    if len(values) > 1 and prompts.blocks is None:
        prompt_values = values[prompts.prompt_R].view(R * kv_heads, prompts.longest, -1)
        return torch.bmm(attention_weights.reshape(R * kv_heads, repeats, -1), prompt_values)
    block_values = (
        values
        if prompts.blocks is None or len(prompts.blocks.prompts) == len(values)
        else values[prompts.blocks.prompts]
    )
    out = _to_blocks(attention_weights, prompts) @ block_values
    return _from_blocks(out, prompts, R, repeats).reshape(R * kv_heads, repeats, -1)


def _to_blocks(rows: Tensor, prompts: Prompts) -> Tensor:
    """(rows, kv_heads, repeats, width) as one block per prompt: (prompts, kv_heads, block_rows * repeats, width)."""
    blocks, (R, kv_heads, repeats, width) = prompts.blocks, rows.shape
    if blocks is None:
        return rows.transpose(0, 1).reshape(1, kv_heads, R * repeats, width)
    padded_rows = rows.new_zeros(len(blocks.prompts) * blocks.block_rows, kv_heads, repeats, width)
    padded_rows[blocks.index_R] = rows
    shape = (len(blocks.prompts), blocks.block_rows, kv_heads, repeats, width)
    return padded_rows.view(shape).transpose(1, 2).reshape(shape[0], kv_heads, blocks.block_rows * repeats, width)


def _from_blocks(blocked: Tensor, prompts: Prompts, R: int, repeats: int) -> Tensor:
    """Blocks back as rows: (rows, kv_heads, repeats, width)."""
    G, kv_heads, _, width = blocked.shape
    rows = blocked.view(G, kv_heads, -1, repeats, width).transpose(1, 2)
    if prompts.blocks is None:
        return rows[0]
    return rows.reshape(-1, kv_heads, repeats, width)[prompts.blocks.index_R]


def _prompt_blocks(prompt_R: Tensor) -> Blocks:
    """The layout of rows by their prompts; rows of one prompt keep their order."""
    prompts, block_R, count = torch.unique(prompt_R, return_inverse=True, return_counts=True)
    block_rows = int(count.max())
    order_R = torch.argsort(block_R, stable=True)
    first = torch.cumsum(count, 0) - count
    slot_in_block_R = torch.empty_like(block_R)
    slot_in_block_R[order_R] = torch.arange(len(block_R), device=block_R.device) - first[block_R[order_R]]
    return Blocks(prompts, block_R * block_rows + slot_in_block_R, block_rows)


def _attend_many_tokens(state: AttentionContext, layer: int, query: Tensor, window: int, cap: float) -> Tensor:
    """Several new tokens per row, as when a prompt is read: each sees its prompt and the row's tokens up to itself.

    Rare beside `_attend_next_token` (prompts, and rows that waited for memory), so each row simply takes
    a copy of its prompt.
    """
    R, heads, new, _ = query.shape
    total = state.cached + new
    layer_cache = state.layers[layer]
    key, value = (
        layer_cache.keys[state.start : state.stop, :, :total],
        layer_cache.values[state.start : state.stop, :, :total],
    )
    position_Q, position_T = (
        torch.arange(state.cached, total, device=query.device),
        torch.arange(total, device=query.device),
    )
    is_visible = (position_T <= position_Q[:, None]).expand(R, 1, new, total)
    if window:
        is_visible = is_visible & (position_T > position_Q[:, None] - window)
    if state.prompts is not None:
        prompts = state.prompts
        prompt_layer, L = prompts.layers[layer], prompts.longest
        key = torch.cat([prompt_layer.keys[prompts.prompt_R, :, :L], key], 2)
        value = torch.cat([prompt_layer.values[prompts.prompt_R, :, :L], value], 2)
        length_R, position_L = prompts.length_G[prompts.prompt_R][:, None, None], torch.arange(L, device=query.device)
        in_prompt = (position_L < length_R).expand(R, new, L)
        if window:
            in_prompt = in_prompt & (position_L > length_R + position_Q[:, None] - window)
        is_visible = torch.cat([in_prompt[:, None], is_visible], -1)
    if cap:  # no fused kernel of torch caps scores
        repeats = heads // key.shape[1]
        scores = torch.tanh(query @ key.repeat_interleave(repeats, 1).transpose(2, 3) / cap) * cap
        attention_weights = torch.softmax(scores.masked_fill(~is_visible, -torch.inf), -1)
        return (attention_weights @ value.repeat_interleave(repeats, 1)).transpose(1, 2)
    causal = state.prompts is None and not window and not state.cached
    out = scaled_dot_product_attention(
        query, key, value, None if causal else is_visible, is_causal=causal, scale=1.0, enable_gqa=heads != key.shape[1]
    )
    return out.transpose(1, 2)
