"""The prefix tree of a prompt: what is known of prefixes that samples went through, so that later ones need not ask."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.samplers.huggingface.slots import Layer, Slots

Ints = NDArray[np.int64]
ROOT = 0


@dataclass
class Tree:
    """A prompt's tokens, keys and values, and its nodes: the logits after a prefix, keys and values of its last token.

    Node 0 is the prompt itself. Nodes are added only where more samples of the problem may come.
    """

    prompt: list[int]
    layers: list[Layer]  # of the prompt
    logits_NV: Tensor
    keep: bool = False  # whether nodes are added
    parent_N: Ints = field(default_factory=lambda: np.full(1, -1, np.int64))
    token_N: Ints = field(default_factory=lambda: np.full(1, -1, np.int64))
    keys_N: list[Tensor] = field(default_factory=list)  # a layer: (nodes, heads, width)
    values_N: list[Tensor] = field(default_factory=list)
    size: int = 1
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def bytes_of(self, nodes: int, bytes_a_token: int) -> int:
        """Memory that so many nodes take: logits, keys and values."""
        return nodes * (self.logits_NV.shape[1] * self.logits_NV.itemsize + bytes_a_token)

    def bytes(self, bytes_a_token: int) -> int:
        """Memory that the tree takes, its prompt included."""
        return len(self.prompt) * bytes_a_token + self.bytes_of(self.size, bytes_a_token)

    def logits(self, node_R: Ints) -> Tensor:
        return self.logits_NV[torch.from_numpy(node_R).to(self.logits_NV.device)]

    def children(self, node_R: Ints, token_R: Ints) -> Ints:
        """The nodes of prefixes that are one token longer; -1 where there is none."""
        found = self._children
        pairs = zip(node_R.tolist(), token_R.tolist(), strict=True)
        return np.fromiter((found.get(pair, -1) for pair in pairs), np.int64, len(node_R))

    def add(self, parent_R: Ints, token_R: Ints, logits_RV: Tensor, slots: Slots, slot_R: Tensor, depth: int) -> Ints:
        """New nodes at a depth, from rows that have just gone through the model; their numbers."""
        node_R = np.arange(self.size, self.size + len(parent_R))
        self._children.update(zip(zip(parent_R.tolist(), token_R.tolist(), strict=True), node_R.tolist(), strict=True))
        self._room(self.size + len(parent_R), slots)
        self.parent_N[node_R], self.token_N[node_R] = parent_R, token_R
        low, high = self.size, self.size + len(parent_R)
        self.logits_NV[low:high] = logits_RV
        for place, layer in enumerate(slots.layers):
            self.keys_N[place][low:high] = layer.keys[slot_R, :, depth - 1]
            self.values_N[place][low:high] = layer.values[slot_R, :, depth - 1]
        self.size = high
        return node_R

    def path(self, node_R: Ints, depth: int) -> Ints:
        """The nodes from below the root to each node, which all lie at one depth: (rows, depth)."""
        path = np.empty((len(node_R), depth), np.int64)
        for place in range(depth - 1, -1, -1):
            path[:, place] = node_R
            node_R = self.parent_N[node_R]
        return path

    def fill(self, slots: Slots, slot_R: Tensor, path_RT: Ints) -> None:
        """Write keys and values of whole paths into slots."""
        if not path_RT.shape[1]:
            return
        place = torch.from_numpy(path_RT).to(slot_R.device)
        for number, layer in enumerate(slots.layers):
            for buffer, nodes in ((layer.keys, self.keys_N[number]), (layer.values, self.values_N[number])):
                buffer[slot_R, :, : path_RT.shape[1]] = nodes[place].transpose(1, 2)

    def _room(self, nodes: int, slots: Slots) -> None:
        if not self.keys_N:
            for layer in slots.layers:
                shape = (1, layer.keys.shape[1], layer.keys.shape[3])
                self.keys_N.append(layer.keys.new_empty(shape))
                self.values_N.append(layer.keys.new_empty(shape))
        have = len(self.parent_N)
        if nodes <= have:
            return
        most = max(nodes, 2 * have, 64)
        more = np.full(most - have, -1, np.int64)
        self.parent_N, self.token_N = np.concatenate([self.parent_N, more]), np.concatenate([self.token_N, more])
        self.logits_NV = _grown(self.logits_NV, most)
        self.keys_N = [_grown(one, most) for one in self.keys_N]
        self.values_N = [_grown(one, most) for one in self.values_N]


def _grown(buffer: Tensor, rows: int) -> Tensor:
    new = buffer.new_empty(rows, *buffer.shape[1:])
    new[: len(buffer)] = buffer
    return new
