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
# Buffers start as zeros: what is not yet written is multiplied by a probability of 0, and must be a number.


@dataclass
class Layer:
    """Keys and values of one layer: (slots, heads, tokens, width). Made when the first ones come."""

    slots: int  # room for that many
    tokens: int
    keys: Tensor = field(default_factory=lambda: torch.empty(0))
    values: Tensor = field(default_factory=lambda: torch.empty(0))

    def append(self, start: int, stop: int, have: int, key: Tensor, value: Tensor) -> None:
        """Write the new tokens of rows [start, stop), which hold `have` tokens already."""
        if not self.keys.numel():
            self.keys = key.new_zeros(self.slots, key.shape[1], self.tokens, key.shape[3])
            self.values = torch.zeros_like(self.keys)
        self.keys[start:stop, :, have : have + key.shape[2]] = key
        self.values[start:stop, :, have : have + key.shape[2]] = value

    def view(self, start: int, stop: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Keys and values of rows [start, stop), heads after one another: (rows * heads, tokens, width), no copy."""
        shape = (-1, self.keys.shape[2], self.keys.shape[3])
        return self.keys[start:stop].view(shape)[:, :tokens], self.values[start:stop].view(shape)[:, :tokens]

    def copy(self, source: Tensor, target: Tensor) -> None:
        for buffer in (self.keys, self.values):  # whole slots: one block of memory each, quicker than parts of them
            buffer.index_copy_(0, target, buffer.index_select(0, source))

    def resize(self, slots: int, tokens: int, rows: int, have: int) -> None:
        """Other room; the first `rows` rows keep their `have` tokens."""
        self.slots, self.tokens = slots, tokens
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros(slots, old.shape[1], tokens, old.shape[3])
            new[:rows, :, :have] = old[:rows, :, :have]
            setattr(self, name, new)
            del old


@dataclass
class Slots:
    """The rows of a walk: their own tokens, and keys and values of those in every layer."""

    layers: list[Layer]
    slots: int
    tokens: int

    @classmethod
    def of(cls, layers: int, slots: int, tokens: int) -> "Slots":
        return cls([Layer(slots, tokens) for _ in range(layers)], slots, tokens)

    @classmethod
    def like(cls, layers: list[Layer], slots: int, tokens: int) -> "Slots":
        """Empty slots for a model whose layers these are."""
        made = []
        for layer in layers:
            keys = layer.keys.new_zeros(slots, layer.keys.shape[1], tokens, layer.keys.shape[3])
            made.append(Layer(slots, tokens, keys, torch.zeros_like(keys)))
        return cls(made, slots, tokens)

    def copy(self, source: Tensor, target: Tensor) -> None:
        if len(source):
            for layer in self.layers:
                layer.copy(source, target)

    @property
    def bytes_a_token(self) -> int:
        return sum(2 * one.keys.shape[1] * one.keys.shape[3] * one.keys.itemsize for one in self.layers)

    def longer(self, tokens: int) -> int:
        """The room in tokens that a slot has once it holds so many: it grows by half, to be grown seldom."""
        return self.tokens if tokens <= self.tokens else max(tokens, self.tokens * 3 // 2, 16)

    def room(self, slots: int, tokens: int, rows: int, have: int, most: int = 1 << 62) -> None:
        """Make room for so many slots and tokens; the first `rows` slots keep their first `have` tokens.

        Slots are made in stock, twice as many as are needed, but no more than `most`.
        """
        if slots <= self.slots and tokens <= self.tokens:
            return
        self.tokens = self.longer(tokens)
        self.slots = max(slots, min(max(2 * slots, self.slots), most))
        for layer in self.layers:
            layer.resize(self.slots, self.tokens, min(rows, self.slots), have)


# The attention function, and the layout of rows by prompt.


NAME = "offleash"
LEAST = 16  # tokens of a row that are multiplied at least: matrices below 400 products take a slow way in torch
WASTE = 4  # times the rows: how far rows are padded to one block a prompt before each takes a copy of its prompt

_attending: ContextVar["AttentionContext"] = ContextVar("attending")


class UnsupportedError(Exception):
    """A model whose attention is of a kind that this one does not do; the plain engine runs it."""


@dataclass(frozen=True)
class Blocks:
    """Rows laid out as one block a prompt, padded to the longest block: where each row goes."""

    prompts: Tensor  # those that have rows
    place_R: Tensor
    most: int


@dataclass(frozen=True)
class Prompts:
    """The prompts of a batch: their keys and values, and which of them each row continues."""

    layers: list[Layer]  # one slot a prompt, padded to the longest
    length_G: Tensor
    prompt_R: Tensor
    longest: int
    blocks: Blocks | None  # None: one prompt, or too uneven to be laid out in blocks

    @classmethod
    def of(cls, layers: list[Layer], length_G: Tensor, prompt_R: Tensor) -> "Prompts":
        blocks = _blocks(prompt_R) if len(length_G) > 1 else None
        if blocks is not None and len(blocks.prompts) * blocks.most > WASTE * len(prompt_R):
            blocks = None
        return cls(layers, length_G, prompt_R, int(length_G.max()), blocks)


@dataclass(frozen=True)
class AttentionContext:
    """What a forward pass over rows [start, stop) needs to know beside its tokens."""

    layers: list[Layer]  # the rows' own keys and values
    start: int
    stop: int
    have: int  # tokens that the rows hold already
    prompts: Prompts | None = None
    windows: dict[int, int] | None = None  # filled, where it is wanted, with the window that each layer asks for


@contextmanager
def attending(state: AttentionContext) -> Iterator[None]:
    token = _attending.set(state)
    try:
        yield
    finally:
        _attending.reset(token)


def register() -> None:
    """Make the function known to transformers by its name."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: object
) -> tuple[Tensor, None]:
    """The attention of one layer: (rows, heads, tokens, width) in, (rows, tokens, heads, width) out."""
    state, layer = _attending.get(), module.layer_idx
    if mask is not None or options.get("s_aux") is not None or options.get("position_bias") is not None:
        raise UnsupportedError("masks, sinks or biases")
    if key.shape[-1] != value.shape[-1]:
        raise UnsupportedError("keys and values of different width")
    assert isinstance(layer, int)
    scale, window, cap = (options.get(name) for name in ("scaling", "sliding_window", "softcap"))
    query = query * (scale if isinstance(scale, float | int) else query.shape[-1] ** -0.5)
    state.layers[layer].append(state.start, state.stop, state.have, key, value)
    if state.windows is not None:
        state.windows[layer] = window if isinstance(window, int) else 0
    wide, soft = (window if isinstance(window, int) else 0), (float(cap) if isinstance(cap, float | int) else 0.0)
    return (_step if query.shape[2] == 1 else _many)(state, layer, query, wide, soft), None


def _step(state: AttentionContext, layer: int, query: Tensor, window: int, cap: float) -> Tensor:
    """One new token a row: scores against the shared prompt and against the row's own tokens, one softmax over both."""
    R, heads, _, width = query.shape
    own, total = state.layers[layer], state.have + 1
    padded = max(total, min(LEAST, own.tokens))
    key, value = own.view(state.start, state.stop, padded)
    kinds = key.shape[0] // R  # heads of keys; several heads of queries may share one
    query = query.reshape(R * kinds, heads // kinds, width)
    L = state.prompts.longest if state.prompts is not None else 0
    scores = query.new_empty(R, kinds, heads // kinds, L + padded)
    scores[..., L:] = torch.bmm(query, key.transpose(1, 2)).view(R, kinds, heads // kinds, padded)
    if state.prompts is not None:
        scores[..., :L] = _to_prompts(state.prompts, layer, query, R)
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if state.prompts is not None:
        _hide(scores[..., :L], state.prompts, state.have, window)
    scores[..., L + total :] = -torch.inf
    if window and total > window:
        scores[..., L : L + total - window] = -torch.inf
    chance = torch.softmax(scores, -1)
    out = torch.bmm(chance[..., L:].reshape(R * kinds, -1, padded), value)
    if state.prompts is not None:
        out += _from_prompts(state.prompts, layer, chance[..., :L])
    return out.view(R, 1, heads, width)


def _hide(scores: Tensor, prompts: Prompts, have: int, window: int) -> None:
    """Strike out the padding of shorter prompts, and what lies before the window."""
    if len(prompts.length_G) == 1 and not (window and prompts.longest + have >= window):
        return
    place_L = torch.arange(prompts.longest, device=scores.device)
    length_R = prompts.length_G[prompts.prompt_R][:, None]
    hidden_RL = place_L >= length_R
    if window:
        hidden_RL |= place_L <= length_R + have - window
    scores.masked_fill_(hidden_RL[:, None, None, :], -torch.inf)


def _to_prompts(prompts: Prompts, layer: int, query: Tensor, R: int) -> Tensor:
    """Scores (rows, kinds, repeats, L) of queries (rows * kinds, repeats, width) against each row's prompt."""
    keys = prompts.layers[layer].keys[:, :, : prompts.longest]
    kinds, repeats, width = query.shape[0] // R, query.shape[1], query.shape[2]
    if len(keys) > 1 and prompts.blocks is None:
        own = keys[prompts.prompt_R].view(R * kinds, -1, width)
        return torch.bmm(query, own.transpose(1, 2)).view(R, kinds, repeats, -1)
    blocked = _blocked(query.view(R, kinds, repeats, width), prompts)
    chosen = (
        keys if prompts.blocks is None or len(prompts.blocks.prompts) == len(keys) else keys[prompts.blocks.prompts]
    )
    scores = blocked @ chosen.transpose(2, 3)
    return _unblocked(scores, prompts, R, repeats)


def _from_prompts(prompts: Prompts, layer: int, chance: Tensor) -> Tensor:
    """What rows take from their prompts' values: (rows * kinds, repeats, width)."""
    values = prompts.layers[layer].values[:, :, : prompts.longest]
    R, kinds, repeats, _ = chance.shape
    if len(values) > 1 and prompts.blocks is None:
        own = values[prompts.prompt_R].view(R * kinds, prompts.longest, -1)
        return torch.bmm(chance.reshape(R * kinds, repeats, -1), own)
    chosen = (
        values
        if prompts.blocks is None or len(prompts.blocks.prompts) == len(values)
        else values[prompts.blocks.prompts]
    )
    out = _blocked(chance, prompts) @ chosen
    return _unblocked(out, prompts, R, repeats).reshape(R * kinds, repeats, -1)


def _blocked(rows: Tensor, prompts: Prompts) -> Tensor:
    """(rows, kinds, repeats, width) as one block a prompt: (prompts, kinds, most * repeats, width)."""
    blocks, (R, kinds, repeats, width) = prompts.blocks, rows.shape
    if blocks is None:
        return rows.transpose(0, 1).reshape(1, kinds, R * repeats, width)
    padded = rows.new_zeros(len(blocks.prompts) * blocks.most, kinds, repeats, width)
    padded[blocks.place_R] = rows
    shape = (len(blocks.prompts), blocks.most, kinds, repeats, width)
    return padded.view(shape).transpose(1, 2).reshape(shape[0], kinds, blocks.most * repeats, width)


def _unblocked(blocked: Tensor, prompts: Prompts, R: int, repeats: int) -> Tensor:
    """Blocks back as rows: (rows, kinds, repeats, width)."""
    G, kinds, _, width = blocked.shape
    rows = blocked.view(G, kinds, -1, repeats, width).transpose(1, 2)
    if prompts.blocks is None:
        return rows[0]
    return rows.reshape(-1, kinds, repeats, width)[prompts.blocks.place_R]


def _blocks(prompt_R: Tensor) -> Blocks:
    prompts, block_R, count = torch.unique(prompt_R, return_inverse=True, return_counts=True)
    most = int(count.max())
    order_R = torch.argsort(block_R, stable=True)
    first = torch.cumsum(count, 0) - count
    within_R = torch.empty_like(block_R)
    within_R[order_R] = torch.arange(len(block_R), device=block_R.device) - first[block_R[order_R]]
    return Blocks(prompts, block_R * most + within_R, most)


def _many(state: AttentionContext, layer: int, query: Tensor, window: int, cap: float) -> Tensor:
    """Several new tokens a row, as when a prompt is read: each sees its prompt and the row's tokens up to itself."""
    R, heads, new, _ = query.shape
    total = state.have + new
    own = state.layers[layer]
    key, value = own.keys[state.start : state.stop, :, :total], own.values[state.start : state.stop, :, :total]
    place_Q, place_T = torch.arange(state.have, total, device=query.device), torch.arange(total, device=query.device)
    seen = (place_T <= place_Q[:, None]).expand(R, 1, new, total)
    if window:
        seen = seen & (place_T > place_Q[:, None] - window)
    if state.prompts is not None:
        prompts = state.prompts
        shared, L = prompts.layers[layer], prompts.longest
        key = torch.cat([shared.keys[prompts.prompt_R, :, :L], key], 2)
        value = torch.cat([shared.values[prompts.prompt_R, :, :L], value], 2)
        length_R, place_L = prompts.length_G[prompts.prompt_R][:, None, None], torch.arange(L, device=query.device)
        before = (place_L < length_R).expand(R, new, L)
        if window:
            before = before & (place_L > length_R + place_Q[:, None] - window)
        seen = torch.cat([before[:, None], seen], -1)
    if cap:
        repeats = heads // key.shape[1]
        scores = torch.tanh(query @ key.repeat_interleave(repeats, 1).transpose(2, 3) / cap) * cap
        chance = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1)
        return (chance @ value.repeat_interleave(repeats, 1)).transpose(1, 2)
    causal = state.prompts is None and not window and not state.have
    out = scaled_dot_product_attention(
        query, key, value, None if causal else seen, is_causal=causal, scale=1.0, enable_gqa=heads != key.shape[1]
    )
    return out.transpose(1, 2)
