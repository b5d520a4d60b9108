"""Exact expansion of a prompt: every prefix more probable than epsilon goes through the model once, depth by depth.

Prefixes of one depth exclude each other, so fewer than 1/epsilon of them are alive at any depth. The mass that is cut
off is summed separately from the mass that is found: the two must add up to 1, or a prefix was lost or counted twice.
Probabilities are sums of 64-bit logarithms of the model's 32-bit outputs: each token is accurate to about 1e-6, so a
completion of T tokens within a relative distance of about T * 1e-6 from epsilon may fall on either side of it.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.progress import Progress, silent
from offleash.samplers.huggingface.attention import Prompts, Slots
from offleash.samplers.huggingface.forward import Network
from offleash.samplers.huggingface.prefix_sampling import Stops, WalkLimits, distribution
from offleash.samplers.huggingface.prefix_tree import ROOT, PrefixRows, Tree, advance, root_rows
from offleash.samplers.sampler import FINISHED, TRUNCATED, SamplingParams

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class Leaves:
    """Completions of one length: their tokens without the one that ends them, and log-probabilities with it."""

    token_ET: Tokens
    sums_E2: Floats  # as sampled, raw
    finish: str


@dataclass(frozen=True)
class _Frontier:
    """The prefixes of one depth, a row each, and their log-probabilities as sampled and raw."""

    rows: PrefixRows
    sums_R2: Floats


@dataclass(frozen=True)
class _Branches:
    """What follows the rows of one depth: C children that are probable enough, and E rows that may end here."""

    row_C: Ints  # the row that each child extends
    token_C: Ints
    sums_C2: Floats  # log-probabilities of the children, as sampled and raw
    row_E: Ints
    sums_E2: Floats


@dataclass
class PrefixExpansion:
    """A prompt on its way through the model.

    The invariant: kept + cut + (mass of the prefixes that are still open) = 1, at any moment. At the end nothing is
    open, and the caller checks that the other two add up.
    """

    network: Network
    decoding: SamplingParams
    ends: Ints  # tokens that end a completion: one event, whichever of them it is
    tree: Tree
    epsilon: float
    floor: float  # completions above it are kept where their last prefix is above epsilon: they cost nothing more
    limits: WalkLimits = field(default_factory=WalkLimits)
    stops: Stops | None = None
    progress: Progress = silent
    completed_mass: float = 0.0  # mass of the completions that were given out
    unexplored_mass: float = 0.0  # mass of everything that was left unexplored
    prefixes: int = 0  # that were expanded
    deepest: int = 0

    def leaves(self) -> Iterator[Leaves]:
        """All completions, as they are reached. What does not fit into memory waits, as tokens, and is read again."""
        waiting: deque[_Frontier] = deque([_Frontier(root_rows(np.zeros(1, np.int64)), np.zeros((1, 2)))])
        while waiting:
            for leaves in self._descend(waiting.pop(), waiting):
                self.completed_mass += float(np.exp(leaves.sums_E2[:, 0]).sum())
                yield leaves

    def _descend(self, frontier: _Frontier, waiting: deque[_Frontier]) -> Iterator[Leaves]:
        """One front to the end of its last completion, depth by depth."""
        slots = self.network.spare_slots(self.tree.layers, frontier.rows.depth)
        cached = 0  # tokens of every row whose keys and values are in its slot
        frontier, depth = self._fit(frontier, slots, waiting), frontier.rows.depth
        while len(frontier.sums_R2):
            last = depth + 1 == self.decoding.max_tokens
            branches = self._branches(frontier, slots, cached, last)
            self.prefixes, self.deepest = self.prefixes + len(frontier.sums_R2), max(self.deepest, depth)
            if len(branches.row_E):
                yield Leaves(_paths(frontier.rows, branches.row_E), branches.sums_E2, FINISHED)
            stopped_leaves, branches = self._split_stopped(frontier.rows, branches)
            if stopped_leaves is not None:
                yield stopped_leaves
            if last:
                if len(branches.row_C):
                    yield Leaves(_paths(frontier.rows, branches.row_C, branches.token_C), branches.sums_C2, TRUNCATED)
                return
            cached, frontier = depth, self._next(frontier.rows, branches, slots, waiting)
            depth += 1
            decided_mass = self.completed_mass + self.unexplored_mass
            self.progress(
                f"{len(frontier.sums_R2):,} prefixes of {depth:,} tokens, {decided_mass:.1%} of the mass settled"
            )

    def _branches(self, frontier: _Frontier, slots: Slots, cached: int, last: bool) -> _Branches:
        """All rows through the model, as many at a time as fit, and what follows them."""
        rows, branch_parts = frontier.rows, []
        vocabulary = self.tree.logits_NV.shape[1]
        # half as many cells as when sampling: log-probabilities are held in 64 bits here
        max_rows = max(1, min(self.limits.rows, self.limits.cells // (2 * vocabulary)) // max(1, rows.depth - cached))
        for start in range(0, len(frontier.sums_R2), max_rows):
            stop = min(start + max_rows, len(frontier.sums_R2))
            logits = self._logits(rows, slots, start, stop, cached)
            branch_parts.append(self._branch(logits, frontier.sums_R2[start:stop], start, last))
        columns = zip(
            *((part.row_C, part.token_C, part.sums_C2, part.row_E, part.sums_E2) for part in branch_parts), strict=True
        )
        return _Branches(*(np.concatenate(column) for column in columns))

    def _logits(self, rows: PrefixRows, slots: Slots, start: int, stop: int, cached: int) -> Tensor:
        """Logits after rows [start, stop); those of the prompt itself are in the tree."""
        if not rows.depth:
            return self.tree.logits(np.full(stop - start, ROOT))
        device = self.network.device
        length = torch.tensor([len(self.tree.prompt)], device=device)
        prompts = Prompts.of(self.tree.layers, length, torch.zeros(stop - start, dtype=torch.long, device=device))
        new = torch.from_numpy(rows.token_RT[start:stop, cached : rows.depth].astype(np.int64)).to(device)
        return self.network.run(slots, start, stop, cached, new, prompts)

    def _branch(self, logits: Tensor, sums_R2: Floats, start: int, last: bool) -> _Branches:
        """The probable children and ends of some rows; the mass of the others is added to `unexplored_mass`.

        A child must be above epsilon to be read further. A completion is kept from `floor` on: it is known already.
        """
        step = distribution(logits, self.decoding)
        sums = torch.from_numpy(sums_R2).to(logits.device)
        sampled_RV = _normalised(step.sampled_RV) + sums[:, :1]
        raw_RV = sampled_RV.clone() if self.decoding.is_plain else _normalised(step.raw_RV) + sums[:, 1:]
        ends = torch.from_numpy(self.ends).to(logits.device)
        # several end tokens are one event: the completion is the same whichever of them is drawn
        end_R, raw_end_R = (torch.logsumexp(logprob_RV[:, ends], -1) for logprob_RV in (sampled_RV, raw_RV))
        sampled_RV[:, ends] = -torch.inf
        keep_RV, keep_R = sampled_RV > math.log(self.floor if last else self.epsilon), end_R > math.log(self.floor)
        self.unexplored_mass += float(
            sampled_RV.masked_fill(keep_RV, -torch.inf).exp_().sum() + end_R[~keep_R].exp().sum()
        )
        row, token = keep_RV.nonzero(as_tuple=True)
        return _Branches(
            row.cpu().numpy() + start,
            token.cpu().numpy(),
            torch.stack([sampled_RV[row, token], raw_RV[row, token]], 1).cpu().numpy(),
            np.flatnonzero(keep_R.cpu().numpy()) + start,
            torch.stack([end_R[keep_R], raw_end_R[keep_R]], 1).cpu().numpy(),
        )

    def _split_stopped(self, rows: PrefixRows, branches: _Branches) -> tuple[Leaves | None, _Branches]:
        """Completions: children whose text has come to a stop text (None without any); and the other children."""
        if self.stops is None or not len(branches.row_C):
            return None, branches
        paths = _paths(rows, branches.row_C, branches.token_C)
        stopped_C = self.stops(paths)
        if not stopped_C.any():
            return None, branches
        row_C, token_C, sums_C2 = branches.row_C, branches.token_C, branches.sums_C2
        continuing_branches = replace(
            branches, row_C=row_C[~stopped_C], token_C=token_C[~stopped_C], sums_C2=sums_C2[~stopped_C]
        )
        return Leaves(paths[stopped_C], sums_C2[stopped_C], FINISHED), continuing_branches

    def _next(self, rows: PrefixRows, branches: _Branches, slots: Slots, waiting: deque[_Frontier]) -> _Frontier:
        """The children as rows in slots: as many as fit, the others wait."""
        max_rows = self._max_rows(slots, rows.depth + 1)
        row, token, sums = branches.row_C, branches.token_C, branches.sums_C2
        if len(row) > max_rows:
            waiting.append(_frontier(_paths(rows, row[max_rows:], token[max_rows:]), sums[max_rows:]))
            row, token, sums = row[:max_rows], token[:max_rows], sums[:max_rows]
        # every child is a "sample" of its own to `advance`: children are distinct, so there is nothing to merge
        children = replace(rows, sample_N=np.arange(len(row)), row_N=row)
        nodes, is_continuing = np.full(rows.real, -1, np.int64), np.ones(len(row), np.bool_)
        after, moves = advance(children, nodes, token, is_continuing, [self.tree], merge=False)
        slots.reserve(max(after.real, rows.real), rows.depth + 1, rows.real, rows.depth, max_rows)
        device = self.network.device
        slots.copy(torch.from_numpy(moves.source).to(device), torch.from_numpy(moves.target).to(device))
        sums_R2 = np.empty_like(sums)
        sums_R2[after.row_N] = sums[after.sample_N]
        return _Frontier(after, sums_R2)

    def _fit(self, frontier: _Frontier, slots: Slots, waiting: deque[_Frontier]) -> _Frontier:
        """What fits of a front that has waited; the rest keeps waiting."""
        rows, max_rows = frontier.rows, self._max_rows(slots, frontier.rows.depth)
        if rows.real > max_rows:
            token_RT = rows.token_RT[: rows.real, : rows.depth]
            waiting.append(_frontier(token_RT[max_rows:], frontier.sums_R2[max_rows:]))
            frontier = _frontier(token_RT[:max_rows], frontier.sums_R2[:max_rows])
        slots.reserve(frontier.rows.real, rows.depth, 0, 0, max_rows)
        return frontier

    def _max_rows(self, slots: Slots, depth: int) -> int:
        """Rows of so many tokens whose keys and values fit into memory."""
        return max(1, self.limits.memory // (slots.bytes_per_token * max(1, slots.token_capacity(depth))))


def _normalised(log_RV: Tensor) -> Tensor:
    """Log-probabilities in 64 bits that sum to 1 in 64 bits: those that samples are drawn by."""
    log_RV = log_RV.double()
    return log_RV - torch.logsumexp(log_RV, -1, keepdim=True)


def _paths(rows: PrefixRows, row_E: Ints, token_E: Ints | None = None) -> Tokens:
    """The tokens of rows, each with one more where `token_E` is given."""
    paths = rows.token_RT[row_E, : rows.depth] if rows.depth else np.empty((len(row_E), 0), np.int32)
    return paths if token_E is None else np.concatenate([paths, token_E[:, None].astype(np.int32)], 1)


def _frontier(token_RT: Tokens, sums_R2: Floats) -> _Frontier:
    """Rows that are known by their tokens alone: copies, since the buffers they come from are written on."""
    row_R, no_tokens = np.arange(len(token_RT)), np.empty(0, np.int64)
    tree_R, no_parent_R = np.zeros(len(token_RT), np.int64), np.full(len(token_RT), -1, np.int64)
    rows = PrefixRows(token_RT.shape[1], row_R, row_R, token_RT.copy(), tree_R, no_parent_R, no_tokens, no_tokens)
    return _Frontier(rows, sums_R2.copy())
