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

    Node 0 is the prompt itself. Nodes are added only where more samples of the problem may come, and never removed, so
    a node's number is its identity. Attention is causal: the keys and values of a token depend on what is before it
    alone, so those of a prefix are found along the path from the root, each token's stored once.

    A node is added only below a node that is there (`PrefixRows.parent_R`): when memory runs out the tree stops growing
    at that branch and stays a tree.
    """

    prompt: list[int]
    layers: list[Layer]  # of the prompt
    logits_NV: Tensor
    keep: bool = False  # whether nodes are added
    parent_N: Ints = field(default_factory=lambda: np.full(1, -1, np.int64))
    token_N: Ints = field(default_factory=lambda: np.full(1, -1, np.int64))
    keys_N: list[Tensor] = field(default_factory=list)  # per layer: (nodes, heads, width)
    values_N: list[Tensor] = field(default_factory=list)
    size: int = 1
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def bytes_for_tokens(self, nodes: int, bytes_per_token: int) -> int:
        """Memory that so many nodes take: logits, keys and values."""
        return nodes * (self.logits_NV.shape[1] * self.logits_NV.itemsize + bytes_per_token)

    def bytes(self, bytes_per_token: int) -> int:
        """Memory that the tree takes, its prompt included."""
        return len(self.prompt) * bytes_per_token + self.bytes_for_tokens(self.size, bytes_per_token)

    def logits(self, node_R: Ints) -> Tensor:
        """What comes after each prefix, without a forward pass."""
        return self.logits_NV[torch.from_numpy(node_R).to(self.logits_NV.device)]

    def children(self, node_R: Ints, token_R: Ints) -> Ints:
        """The nodes of prefixes that are one token longer; -1 where there is none."""
        pairs = zip(node_R.tolist(), token_R.tolist(), strict=True)
        return np.fromiter((self._children.get(pair, -1) for pair in pairs), np.int64, len(node_R))

    def add(self, parent_R: Ints, token_R: Ints, logits_RV: Tensor, slots: Slots, slot_R: Tensor, depth: int) -> Ints:
        """New nodes at a depth, from rows that have just gone through the model; their numbers."""
        node_R = np.arange(self.size, self.size + len(parent_R))
        self._children.update(zip(zip(parent_R.tolist(), token_R.tolist(), strict=True), node_R.tolist(), strict=True))
        self._reserve(self.size + len(parent_R), slots)
        self.parent_N[node_R], self.token_N[node_R] = parent_R, token_R
        low, high = self.size, self.size + len(parent_R)
        self.logits_NV[low:high] = logits_RV
        for index, layer in enumerate(slots.layers):  # the last token of a row at this depth is its (depth - 1)-th
            self.keys_N[index][low:high] = layer.keys[slot_R, :, depth - 1]
            self.values_N[index][low:high] = layer.values[slot_R, :, depth - 1]
        self.size = high
        return node_R

    def path(self, node_R: Ints, depth: int) -> Ints:
        """The nodes from below the root to each node, which all lie at one depth: (rows, depth)."""
        path = np.empty((len(node_R), depth), np.int64)
        for position in range(depth - 1, -1, -1):
            path[:, position] = node_R
            node_R = self.parent_N[node_R]
        return path

    def fill(self, slots: Slots, slot_R: Tensor, path_RT: Ints) -> None:
        """Write keys and values of whole paths into slots."""
        if not path_RT.shape[1]:
            return
        node_RT = torch.from_numpy(path_RT).to(slot_R.device)
        for number, layer in enumerate(slots.layers):
            for buffer, nodes in ((layer.keys, self.keys_N[number]), (layer.values, self.values_N[number])):
                buffer[slot_R, :, : path_RT.shape[1]] = nodes[node_RT].transpose(1, 2)

    def _reserve(self, nodes: int, slots: Slots) -> None:
        """Grow the buffers to at least so many nodes, doubling: adding stays linear in the number of nodes."""
        if not self.keys_N:
            for layer in slots.layers:
                shape = (1, layer.keys.shape[1], layer.keys.shape[3])
                self.keys_N.append(layer.keys.new_empty(shape))
                self.values_N.append(layer.keys.new_empty(shape))
        capacity = len(self.parent_N)
        if nodes <= capacity:
            return
        new_capacity = max(nodes, 2 * capacity, 64)
        unused = np.full(new_capacity - capacity, -1, np.int64)
        self.parent_N, self.token_N = np.concatenate([self.parent_N, unused]), np.concatenate([self.token_N, unused])
        self.logits_NV = _enlarge(self.logits_NV, new_capacity)
        self.keys_N = [_enlarge(keys, new_capacity) for keys in self.keys_N]
        self.values_N = [_enlarge(values, new_capacity) for values in self.values_N]


def _enlarge(buffer: Tensor, rows: int) -> Tensor:
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
    text_length: int  # tokens that are text: all but the end token, where there is one
    finish: str


@dataclass
class PrefixRows:
    """The distinct prefixes that samples have reached, all of one depth, and which sample is at which.

    R real rows hold slots and must go through the model; after them come Q nodes whose logits a tree knows. Real row r
    has slot r, so real rows are always numbered 0 to R - 1 without gaps. Samples are ordered by their row: `row_N`
    never decreases, which is what the binary searches below rely on.
    """

    depth: int  # tokens of every row
    sample_N: Ints
    row_N: Ints  # the row that each sample is at; real + q for the q-th node
    token_RT: Tokens  # of the real rows, in a buffer with spare rows and columns
    tree_R: Ints
    parent_R: Ints  # the node that a real row would be a child of; -1: its prefix is not kept
    tree_Q: Ints
    node_Q: Ints

    @property
    def real(self) -> int:
        """Rows that hold a slot."""
        return len(self.tree_R)

    def nodes(self, part: slice) -> Iterator[tuple[int, Ints]]:
        """The nodes of a part, by runs of the same tree; their order is kept."""
        tree, node = self.tree_Q[part], self.node_Q[part]
        for low, high in pairwise([0, *(np.flatnonzero(np.diff(tree)) + 1).tolist(), len(tree)]):
            yield int(tree[low]), node[low:high]

    def finished(
        self, trees: Sequence[Tree], token_N: Ints, finished_N: Flags, text_length: int, finish: str
    ) -> Iterator[FinishedSamples]:
        """The samples that end with the token they chose, by their distinct sequences; nothing where none ends."""
        if finished_N.any():
            # (row, token) in one integer: sorted by row and then by token, and cheaper to sort than pairs
            code, sequence_N = np.unique(self.row_N[finished_N] << 32 | token_N[finished_N], return_inverse=True)
            last_E = (code & 0xFFFFFFFF).astype(np.int32)
            token_ET = np.concatenate([self._paths(trees, code >> 32), last_E[:, None]], 1)
            yield FinishedSamples(self.sample_N[finished_N], sequence_N, token_ET, text_length, finish)

    def without_stopped(
        self, trees: Sequence[Tree], stopped_R: Flags, finish: str
    ) -> "tuple[PrefixRows, FinishedSamples]":
        """The rows without the samples whose row has come to a stop text; and these samples.

        The rows stay, without samples, until rows are renumbered at the next token. They must not become nodes: nodes
        are not searched for stop texts, and a later sample would pass through and go on.
        """
        stopped_N, stopped_E = stopped_R[self.row_N], np.flatnonzero(stopped_R)
        sequence_N = np.searchsorted(stopped_E, self.row_N[stopped_N])
        tokens = self._paths(trees, stopped_E)
        stopped_samples = FinishedSamples(self.sample_N[stopped_N], sequence_N, tokens, self.depth, finish)
        parent_R = np.where(stopped_R[: self.real], -1, self.parent_R)
        shared_arrays = (self.token_RT, self.tree_R, parent_R, self.tree_Q, self.node_Q)
        return PrefixRows(
            self.depth, self.sample_N[~stopped_N], self.row_N[~stopped_N], *shared_arrays
        ), stopped_samples

    def split(self, max_rows: int) -> "tuple[PrefixRows, PrefixRows]":
        """The first `max_rows` real rows with all nodes, and the other real rows, which know only their tokens.

        Nodes cost no slot, so they always stay.
        """
        low, high = np.searchsorted(self.row_N, [max_rows, self.real])
        remaining = PrefixRows(
            depth=self.depth,
            sample_N=np.concatenate([self.sample_N[:low], self.sample_N[high:]]),
            row_N=np.concatenate([self.row_N[:low], self.row_N[high:] - self.real + max_rows]),
            token_RT=self.token_RT,
            tree_R=self.tree_R[:max_rows],
            parent_R=self.parent_R[:max_rows],
            tree_Q=self.tree_Q,
            node_Q=self.node_Q,
        )
        no_ids = np.empty(0, np.int64)
        remaining_rows = PrefixRows(
            depth=self.depth,
            sample_N=self.sample_N[low:high],
            row_N=self.row_N[low:high] - max_rows,
            token_RT=self.token_RT[max_rows : self.real, : self.depth].copy(),
            tree_R=self.tree_R[max_rows:],
            parent_R=self.parent_R[max_rows:],
            tree_Q=no_ids,
            node_Q=no_ids,
        )
        return remaining, remaining_rows

    def _paths(self, trees: Sequence[Tree], row_E: Ints) -> Tokens:
        """The tokens of rows, which must be ordered: real rows first, then nodes by tree, as the result is."""
        real_count = int(np.searchsorted(row_E, self.real))
        parts = [self.token_RT[row_E[:real_count], : self.depth]]
        for number in np.unique(self.tree_Q[row_E[real_count:] - self.real]):
            index = row_E[real_count:] - self.real
            path = trees[number].path(self.node_Q[index[self.tree_Q[index] == number]], self.depth)
            parts.append(trees[number].token_N[path].astype(np.int32))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Moves:
    """How keys and values must be moved so that every row finds its own in its slot."""

    source: Ints
    target: Ints
    leaving_tree: list[tuple[int, Ints, Ints]]  # tree, slots, and the nodes of each slot's path: rows that leave a tree


def root_rows(tree_N: Ints) -> PrefixRows:
    """All samples at the roots of their trees."""
    order = np.argsort(tree_N, kind="stable")
    tree_Q, row_N = np.unique(tree_N[order], return_inverse=True)
    no_ids = np.empty(0, np.int64)
    tokens = np.empty((0, 16), np.int32)
    return PrefixRows(0, order, row_N, tokens, no_ids, no_ids, tree_Q, np.full(len(tree_Q), ROOT, np.int64))


def advance(
    rows: PrefixRows, node_R: Ints, token_N: Ints, continuing_N: Flags, trees: Sequence[Tree], merge: bool
) -> tuple[PrefixRows, Moves]:
    """The rows one token on, and the moves of keys and values that this takes.

    Samples of one row that chose the same token share a child; the C children are ordered by (row, token). A child of a
    real row is a real row. A child of a node is a node where the tree has it, and else becomes a real row whose keys
    and values are copied out of the tree: it enters.

    Args:
        rows: where the samples are.
        node_R: the nodes that the real rows became after their forward pass; -1: none was added.
        token_N: the token that each sample chose.
        continuing_N: samples that did not end with it.
        trees: by number, as in `rows`.
        merge: whether samples with the same prefix share a row. Without, every sample has its own; the samples drawn
            are the same.
    """
    sample_N, row_N, token_N = rows.sample_N[continuing_N], rows.row_N[continuing_N], token_N[continuing_N]
    if merge and (np.diff(rows.row_N) == 0).any():
        code, child_N = np.unique(row_N << 32 | token_N, return_inverse=True)
        row_C, token_C = code >> 32, code & 0xFFFFFFFF
    else:  # one sample per row: all have diverged, or are to be kept apart
        row_C, token_C, child_N = row_N, token_N, np.arange(len(row_N))
    real_count = int(np.searchsorted(row_C, rows.real))  # children of real rows come first
    node_C, tree_C = rows.node_Q[row_C[real_count:] - rows.real], rows.tree_Q[row_C[real_count:] - rows.real]
    known_child_C = (
        _children(trees, tree_C, node_C, token_C[real_count:]) if merge else np.full(len(node_C), -1, np.int64)
    )
    is_new_C = known_child_C < 0
    slot_C, source, target = _assign_slots(row_C[:real_count], int(is_new_C.sum()))
    entering_slots = slot_C[real_count:]
    # where each child goes: its slot, or its index among the nodes, which are numbered after the real rows
    index_C = np.empty(len(row_C), np.int64)
    index_C[:real_count] = slot_C[:real_count]
    index_C[real_count:][is_new_C] = entering_slots
    index_C[real_count:][~is_new_C] = len(slot_C) + np.arange(int((~is_new_C).sum()))
    tree_R, parent_R = np.empty(len(slot_C), np.int64), np.empty(len(slot_C), np.int64)
    tree_R[slot_C] = np.concatenate([rows.tree_R[row_C[:real_count]], tree_C[is_new_C]])
    # a row continues its tree only where the tree is kept for later samples; elsewhere its nodes would never be read
    keep_tree = np.array([tree.keep for tree in trees])
    parents = np.where(keep_tree[tree_C[is_new_C]], node_C[is_new_C], -1)
    parent_R[slot_C] = np.concatenate([node_R[row_C[:real_count]], parents])
    # tokens follow their rows as keys and values do; numpy reads the whole right side before it writes
    tokens = _enlarge_tokens(rows.token_RT, len(slot_C), rows.depth)
    tokens[target, : rows.depth] = tokens[source, : rows.depth]
    leaving_tree = []
    for number in np.unique(tree_C[is_new_C]):
        is_in_tree_C = tree_C[is_new_C] == number
        path = trees[number].path(node_C[is_new_C][is_in_tree_C], rows.depth)
        tokens[entering_slots[is_in_tree_C], : rows.depth] = trees[number].token_N[path]
        leaving_tree.append((int(number), entering_slots[is_in_tree_C], path))
    tokens[slot_C, rows.depth] = np.concatenate([token_C[:real_count], token_C[real_count:][is_new_C]])
    row_N = index_C[child_N]
    order = np.argsort(row_N, kind="stable")
    after = PrefixRows(
        rows.depth + 1,
        sample_N[order],
        row_N[order],
        tokens,
        tree_R,
        parent_R,
        tree_C[~is_new_C],
        known_child_C[~is_new_C],
    )
    return after, Moves(source, target, leaving_tree)


def _children(trees: Sequence[Tree], tree_C: Ints, node_C: Ints, token_C: Ints) -> Ints:
    """The nodes of children of nodes; -1 where a tree has none."""
    child_C = np.full(len(tree_C), -1, np.int64)
    for number in np.unique(tree_C):
        if trees[number].size > 1:
            is_in_tree_C = tree_C == number
            child_C[is_in_tree_C] = trees[number].children(node_C[is_in_tree_C], token_C[is_in_tree_C])
    return child_C


def _assign_slots(row_C: Ints, entering_rows: int) -> tuple[Ints, Ints, Ints]:
    """Slots for the children of real rows and for rows that enter; and which slots are to be copied onto which.

    The first child of a row stays in the row's slot, so that a row without branches, the usual case, is never copied.
    The exception: its slot lies beyond the new number of rows, and slots must be without gaps. All others take the
    holes. No target is a source: a row that is copied from either has its first child in its slot, which is then no
    hole, or lies beyond all targets.

    Args:
        row_C: the rows that the children extend, ordered.
        entering_rows: rows that come out of trees.
    """
    rows = len(row_C) + entering_rows
    in_place_C = (np.diff(row_C, prepend=-1) != 0) & (row_C < rows)
    is_free = np.ones(rows, np.bool_)
    is_free[row_C[in_place_C]] = False
    free_slots = np.flatnonzero(is_free)
    slot_C = np.empty(rows, np.int64)
    slot_C[: len(row_C)][in_place_C] = row_C[in_place_C]
    moved_count = int((~in_place_C).sum())
    slot_C[: len(row_C)][~in_place_C] = free_slots[:moved_count]
    slot_C[len(row_C) :] = free_slots[moved_count:]
    return slot_C, row_C[~in_place_C], free_slots[:moved_count]


def _enlarge_tokens(token_RT: Tokens, rows: int, depth: int) -> Tokens:
    """The same buffer, or a larger one with what it held, when another row or another token would not fit."""
    capacity, width = token_RT.shape
    if rows <= capacity and depth < width:
        return token_RT
    new_capacity = np.empty((max(rows, capacity), width if depth < width else 2 * width), np.int32)
    new_capacity[:capacity, :width] = token_RT
    return new_capacity
