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
from offleash.samplers.huggingface.prefix_tree import ROOT, PrefixRows, Tree, first_rows, placed
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
class _Front:
    """The prefixes of one depth, a row each, and their log-probabilities as sampled and raw."""

    rows: PrefixRows
    sums_R2: Floats


@dataclass(frozen=True)
class _Branches:
    """What rows part into: C children by their rows, and E rows that may end here."""

    above_C: Ints
    token_C: Ints
    sums_C2: Floats
    above_E: Ints
    sums_E2: Floats


@dataclass
class PrefixExpansion:
    """A prompt on its way through the model."""

    network: Network
    decoding: SamplingParams
    ends: Ints  # tokens that end a completion: one event, whichever of them it is
    tree: Tree
    epsilon: float
    floor: float  # completions above it are kept where their last prefix is above epsilon: they cost nothing more
    limits: WalkLimits = field(default_factory=WalkLimits)
    stops: Stops | None = None
    progress: Progress = silent
    found: float = 0.0  # mass of completions
    cut: float = 0.0  # mass of all that was left unexplored
    prefixes: int = 0  # that were expanded
    deepest: int = 0

    def leaves(self) -> Iterator[Leaves]:
        """All completions, as they are found. What does not fit into memory waits, as tokens, and is read again."""
        waiting: deque[_Front] = deque([_Front(first_rows(np.zeros(1, np.int64)), np.zeros((1, 2)))])
        while waiting:
            for leaves in self._down(waiting.pop(), waiting):
                self.found += float(np.exp(leaves.sums_E2[:, 0]).sum())
                yield leaves

    def _down(self, front: _Front, waiting: deque[_Front]) -> Iterator[Leaves]:
        slots = self.network.spare_slots(self.tree.layers, front.rows.depth)
        have = 0  # tokens of every row whose keys and values are there
        front, depth = self._fitting(front, slots, waiting), front.rows.depth
        while len(front.sums_R2):
            last = depth + 1 == self.decoding.max_tokens
            found = self._branches(front, slots, have, last)
            self.prefixes, self.deepest = self.prefixes + len(front.sums_R2), max(self.deepest, depth)
            if len(found.above_E):
                yield Leaves(_paths(front.rows, found.above_E), found.sums_E2, FINISHED)
            stopped, found = self._stopped(front.rows, found)
            if stopped is not None:
                yield stopped
            if last:
                if len(found.above_C):
                    yield Leaves(_paths(front.rows, found.above_C, found.token_C), found.sums_C2, TRUNCATED)
                return
            have, front = depth, self._next(front.rows, found, slots, waiting)
            depth += 1
            settled = self.found + self.cut
            self.progress(f"{len(front.sums_R2):,} prefixes of {depth:,} tokens, {settled:.1%} of the mass settled")

    def _branches(self, front: _Front, slots: Slots, have: int, last: bool) -> _Branches:
        """All rows through the model, as many at a time as fit, and what they part into."""
        rows, parts = front.rows, []
        wide = self.tree.logits_NV.shape[1]
        most = max(1, min(self.limits.rows, self.limits.cells // (2 * wide)) // max(1, rows.depth - have))
        for start in range(0, len(front.sums_R2), most):
            stop = min(start + most, len(front.sums_R2))
            logits = self._logits(rows, slots, start, stop, have)
            parts.append(self._branch(logits, front.sums_R2[start:stop], start, last))
        every = ((one.above_C, one.token_C, one.sums_C2, one.above_E, one.sums_E2) for one in parts)
        columns = zip(*every, strict=True)
        return _Branches(*(np.concatenate(column) for column in columns))

    def _logits(self, rows: PrefixRows, slots: Slots, start: int, stop: int, have: int) -> Tensor:
        if not rows.depth:
            return self.tree.logits(np.full(stop - start, ROOT))
        device = self.network.device
        length = torch.tensor([len(self.tree.prompt)], device=device)
        prompts = Prompts.of(self.tree.layers, length, torch.zeros(stop - start, dtype=torch.long, device=device))
        new = torch.from_numpy(rows.token_RT[start:stop, have : rows.depth].astype(np.int64)).to(device)
        return self.network.run(slots, start, stop, have, new, prompts)

    def _branch(self, logits: Tensor, sums_R2: Floats, start: int, last: bool) -> _Branches:
        """The children and ends of some rows that are probable enough; the mass of the others is cut off."""
        step = distribution(logits, self.decoding)
        sums = torch.from_numpy(sums_R2).to(logits.device)
        at_RV = _normalised(step.sampled_RV) + sums[:, :1]
        raw_RV = at_RV.clone() if self.decoding.plain else _normalised(step.raw_RV) + sums[:, 1:]
        ends = torch.from_numpy(self.ends).to(logits.device)
        end_R, raw_R = (torch.logsumexp(one[:, ends], -1) for one in (at_RV, raw_RV))
        at_RV[:, ends] = -torch.inf
        keep_RV, keep_R = at_RV > math.log(self.floor if last else self.epsilon), end_R > math.log(self.floor)
        self.cut += float(at_RV.masked_fill(keep_RV, -torch.inf).exp_().sum() + end_R[~keep_R].exp().sum())
        above, token = keep_RV.nonzero(as_tuple=True)
        return _Branches(
            above.cpu().numpy() + start,
            token.cpu().numpy(),
            torch.stack([at_RV[above, token], raw_RV[above, token]], 1).cpu().numpy(),
            np.flatnonzero(keep_R.cpu().numpy()) + start,
            torch.stack([end_R[keep_R], raw_R[keep_R]], 1).cpu().numpy(),
        )

    def _stopped(self, rows: PrefixRows, found: _Branches) -> tuple[Leaves | None, _Branches]:
        """Children whose text has come to a stop text are completions; the others go on."""
        if self.stops is None or not len(found.above_C):
            return None, found
        paths = _paths(rows, found.above_C, found.token_C)
        gone = self.stops(paths)
        if not gone.any():
            return None, found
        rest = replace(found, above_C=found.above_C[~gone], token_C=found.token_C[~gone], sums_C2=found.sums_C2[~gone])
        return Leaves(paths[gone], found.sums_C2[gone], FINISHED), rest

    def _next(self, rows: PrefixRows, found: _Branches, slots: Slots, waiting: deque[_Front]) -> _Front:
        """The children as rows in slots: as many as fit, the others wait."""
        most = self._most(slots, rows.depth + 1)
        above, token, sums = found.above_C, found.token_C, found.sums_C2
        if len(above) > most:
            waiting.append(_front(_paths(rows, above[most:], token[most:]), sums[most:]))
            above, token, sums = above[:most], token[:most], sums[:most]
        parted = replace(rows, sample_N=np.arange(len(above)), row_N=above)
        nodes, going = np.full(rows.real, -1, np.int64), np.ones(len(above), np.bool_)
        after, moves = placed(parted, nodes, token, going, [self.tree], merge=False)
        slots.room(max(after.real, rows.real), rows.depth + 1, rows.real, rows.depth, most)
        device = self.network.device
        slots.copy(torch.from_numpy(moves.source).to(device), torch.from_numpy(moves.target).to(device))
        sums_R2 = np.empty_like(sums)
        sums_R2[after.row_N] = sums[after.sample_N]
        return _Front(after, sums_R2)

    def _fitting(self, front: _Front, slots: Slots, waiting: deque[_Front]) -> _Front:
        """What fits of rows that have waited; the others wait on."""
        rows, most = front.rows, self._most(slots, front.rows.depth)
        if rows.real > most:
            token_RT = rows.token_RT[: rows.real, : rows.depth]
            waiting.append(_front(token_RT[most:], front.sums_R2[most:]))
            front = _front(token_RT[:most], front.sums_R2[:most])
        slots.room(front.rows.real, rows.depth, 0, 0, most)
        return front

    def _most(self, slots: Slots, depth: int) -> int:
        """Rows of so many tokens whose keys and values fit."""
        return max(1, self.limits.memory // (slots.bytes_a_token * max(1, slots.longer(depth))))


def _normalised(log_RV: Tensor) -> Tensor:
    """Log-probabilities in 64 bits that sum to 1 in 64 bits: those that samples are drawn by."""
    log_RV = log_RV.double()
    return log_RV - torch.logsumexp(log_RV, -1, keepdim=True)


def _paths(rows: PrefixRows, row_E: Ints, token_E: Ints | None = None) -> Tokens:
    """The tokens of rows, with one more if it is given."""
    paths = rows.token_RT[row_E, : rows.depth] if rows.depth else np.empty((len(row_E), 0), np.int32)
    return paths if token_E is None else np.concatenate([paths, token_E[:, None].astype(np.int32)], 1)


def _front(token_RT: Tokens, sums_R2: Floats) -> _Front:
    """Rows that are known by their tokens alone."""
    every, none = np.arange(len(token_RT)), np.empty(0, np.int64)
    here, unkept = np.zeros(len(token_RT), np.int64), np.full(len(token_RT), -1, np.int64)
    return _Front(
        PrefixRows(token_RT.shape[1], every, every, token_RT.copy(), here, unkept, none, none), sums_R2.copy()
    )
