"""The prefix tree of a prompt, and the rows: the distinct prefixes that samples have reached at one depth.

A node keeps the logits, keys and values of a prefix that was read, so that later samples need no forward pass for it.
prefix_sampling.py and enumerate_completions.py advance the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.samplers.huggingface.attention import Layer, Slots

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


# Rows: the distinct prefixes of all samples at one depth, and how they split into the rows of the next.


Tokens = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class FinishedSamples:
    """Samples that ended at one depth, and the E distinct sequences of tokens that they ended with."""

    sample_N: Ints
    sequence_N: Ints  # which of the sequences each is
    token_ET: Tokens
    text_length: int  # how many of the tokens are text: a token that only ends a sample is none
    finish: str


@dataclass
class PrefixRows:
    """The first `real` rows hold slots and must go through the model; after them come nodes that a tree knows.

    Samples are ordered by their row.
    """

    depth: int  # tokens of every row
    sample_N: Ints
    row_N: Ints  # the row each stands on; real + q for the q-th node
    token_RT: Tokens  # of the real rows, with room for more rows and tokens
    tree_R: Ints
    parent_R: Ints  # the node that a real row would be a child of; -1: none is kept
    tree_Q: Ints
    node_Q: Ints

    @property
    def real(self) -> int:
        return len(self.tree_R)

    def nodes(self, part: slice) -> Iterator[tuple[int, Ints]]:
        """The nodes of a part, by runs of the same tree."""
        tree, node = self.tree_Q[part], self.node_Q[part]
        for low, high in pairwise([0, *(np.flatnonzero(np.diff(tree)) + 1).tolist(), len(tree)]):
            yield int(tree[low]), node[low:high]

    def leaving(
        self, trees: Sequence[Tree], token_N: Ints, leaving_N: Flags, text_length: int, finish: str
    ) -> Iterator[FinishedSamples]:
        """The samples that end with the token they chose."""
        if leaving_N.any():
            code, sequence_N = np.unique(self.row_N[leaving_N] << 32 | token_N[leaving_N], return_inverse=True)
            last_E = (code & 0xFFFFFFFF).astype(np.int32)
            token_ET = np.concatenate([self._paths(trees, code >> 32), last_E[:, None]], 1)
            yield FinishedSamples(self.sample_N[leaving_N], sequence_N, token_ET, text_length, finish)

    def stopping(self, trees: Sequence[Tree], gone_R: Flags, finish: str) -> "tuple[PrefixRows, FinishedSamples]":
        """The rows without the samples on those that have come to an end by themselves; and these."""
        gone_N, gone_E = gone_R[self.row_N], np.flatnonzero(gone_R)
        sequence_N = np.searchsorted(gone_E, self.row_N[gone_N])
        ended = FinishedSamples(self.sample_N[gone_N], sequence_N, self._paths(trees, gone_E), self.depth, finish)
        rest = (self.token_RT, self.tree_R, self.parent_R, self.tree_Q, self.node_Q)
        return PrefixRows(self.depth, self.sample_N[~gone_N], self.row_N[~gone_N], *rest), ended

    def split(self, most: int) -> "tuple[PrefixRows, PrefixRows]":
        """The first `most` real rows with all nodes, and the other real rows."""
        low, high = np.searchsorted(self.row_N, [most, self.real])
        stay = PrefixRows(
            depth=self.depth,
            sample_N=np.concatenate([self.sample_N[:low], self.sample_N[high:]]),
            row_N=np.concatenate([self.row_N[:low], self.row_N[high:] - self.real + most]),
            token_RT=self.token_RT,
            tree_R=self.tree_R[:most],
            parent_R=self.parent_R[:most],
            tree_Q=self.tree_Q,
            node_Q=self.node_Q,
        )
        none = np.empty(0, np.int64)
        later = PrefixRows(
            depth=self.depth,
            sample_N=self.sample_N[low:high],
            row_N=self.row_N[low:high] - most,
            token_RT=self.token_RT[most : self.real, : self.depth].copy(),
            tree_R=self.tree_R[most:],
            parent_R=self.parent_R[most:],
            tree_Q=none,
            node_Q=none,
        )
        return stay, later

    def _paths(self, trees: Sequence[Tree], row_E: Ints) -> Tokens:
        """The tokens of rows, which are in order."""
        real = int(np.searchsorted(row_E, self.real))
        parts = [self.token_RT[row_E[:real], : self.depth]]
        for number in np.unique(self.tree_Q[row_E[real:] - self.real]):
            place = row_E[real:] - self.real
            path = trees[number].path(self.node_Q[place[self.tree_Q[place] == number]], self.depth)
            parts.append(trees[number].token_N[path].astype(np.int32))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Moves:
    """What keys and values must do so that every row's are in its slot."""

    source: Ints
    target: Ints
    entering: list[tuple[int, Ints, Ints]]  # tree, slots, and the nodes of each slot's path: rows that leave a tree


def first_rows(tree_N: Ints) -> PrefixRows:
    """All samples at the roots of their trees."""
    order = np.argsort(tree_N, kind="stable")
    tree_Q, row_N = np.unique(tree_N[order], return_inverse=True)
    none = np.empty(0, np.int64)
    tokens = np.empty((0, 16), np.int32)
    return PrefixRows(0, order, row_N, tokens, none, none, tree_Q, np.full(len(tree_Q), ROOT, np.int64))


def placed(
    rows: PrefixRows, node_R: Ints, token_N: Ints, going_N: Flags, trees: Sequence[Tree], merge: bool
) -> tuple[PrefixRows, Moves]:
    """The rows one token on. The first child of a row stays in its slot, others and rows from a tree take free ones."""
    sample_N, row_N, token_N = rows.sample_N[going_N], rows.row_N[going_N], token_N[going_N]
    if merge and (np.diff(rows.row_N) == 0).any():
        code, child_N = np.unique(row_N << 32 | token_N, return_inverse=True)
        above_C, token_C = code >> 32, code & 0xFFFFFFFF
    else:  # one sample a row: they have parted, or are to be kept apart
        above_C, token_C, child_N = row_N, token_N, np.arange(len(row_N))
    real = int(np.searchsorted(above_C, rows.real))
    node_C, tree_C = rows.node_Q[above_C[real:] - rows.real], rows.tree_Q[above_C[real:] - rows.real]
    known_C = _children(trees, tree_C, node_C, token_C[real:]) if merge else np.full(len(node_C), -1, np.int64)
    enters_C = known_C < 0
    slot_C, source, target = _slots(above_C[:real], int(enters_C.sum()))
    entering_slots = slot_C[real:]
    place_C = np.empty(len(above_C), np.int64)
    place_C[:real] = slot_C[:real]
    place_C[real:][enters_C] = entering_slots
    place_C[real:][~enters_C] = len(slot_C) + np.arange(int((~enters_C).sum()))
    tree_R, parent_R = np.empty(len(slot_C), np.int64), np.empty(len(slot_C), np.int64)
    tree_R[slot_C] = np.concatenate([rows.tree_R[above_C[:real]], tree_C[enters_C]])
    keeps = np.array([tree.keep for tree in trees])
    parents = np.where(keeps[tree_C[enters_C]], node_C[enters_C], -1)
    parent_R[slot_C] = np.concatenate([node_R[above_C[:real]], parents])
    tokens = _with_room(rows.token_RT, len(slot_C), rows.depth)
    tokens[target, : rows.depth] = tokens[source, : rows.depth]
    entering = []
    for number in np.unique(tree_C[enters_C]):
        mine = tree_C[enters_C] == number
        path = trees[number].path(node_C[enters_C][mine], rows.depth)
        tokens[entering_slots[mine], : rows.depth] = trees[number].token_N[path]
        entering.append((int(number), entering_slots[mine], path))
    tokens[slot_C, rows.depth] = np.concatenate([token_C[:real], token_C[real:][enters_C]])
    row_N = place_C[child_N]
    order = np.argsort(row_N, kind="stable")
    after = PrefixRows(
        rows.depth + 1, sample_N[order], row_N[order], tokens, tree_R, parent_R, tree_C[~enters_C], known_C[~enters_C]
    )
    return after, Moves(source, target, entering)


def _children(trees: Sequence[Tree], tree_C: Ints, node_C: Ints, token_C: Ints) -> Ints:
    found = np.full(len(tree_C), -1, np.int64)
    for number in np.unique(tree_C):
        if trees[number].size > 1:
            mine = tree_C == number
            found[mine] = trees[number].children(node_C[mine], token_C[mine])
    return found


def _slots(above_C: Ints, entering: int) -> tuple[Ints, Ints, Ints]:
    """Slots of children (their parents ordered) and of rows that enter; what is to be copied from where to where.

    A slot that is written to holds no row that is read from: a row with children keeps the first of them.
    """
    rows = len(above_C) + entering
    stays_C = (np.diff(above_C, prepend=-1) != 0) & (above_C < rows)
    free = np.ones(rows, np.bool_)
    free[above_C[stays_C]] = False
    holes = np.flatnonzero(free)
    slot_C = np.empty(rows, np.int64)
    slot_C[: len(above_C)][stays_C] = above_C[stays_C]
    moved = int((~stays_C).sum())
    slot_C[: len(above_C)][~stays_C] = holes[:moved]
    slot_C[len(above_C) :] = holes[moved:]
    return slot_C, above_C[~stays_C], holes[:moved]


def _with_room(token_RT: Tokens, rows: int, depth: int) -> Tokens:
    """The same buffer, or a larger one with what it held, when a row or a token more would not fit."""
    have, width = token_RT.shape
    if rows <= have and depth < width:
        return token_RT
    larger = np.empty((max(rows, have), width if depth < width else 2 * width), np.int32)
    larger[:have, :width] = token_RT
    return larger
