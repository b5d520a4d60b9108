"""Slots: the keys and values of rows, one slot a row, in buffers that are written in place and grow when they must.

Buffers start as zeros: what is not yet written is multiplied by a chance of 0, and must be a number.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor


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
