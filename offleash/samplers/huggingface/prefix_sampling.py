"""Drawing over the prefix tree: all samples advance together, and each distinct prefix goes through the model once.

Every sample chooses each token by its own random number (seeds.uniform), so samples that share a prefix are
independent, and a sample is the same whatever is drawn beside it. Merging saves the forward pass of a prefix that
several samples share; once they have all diverged, each is a row of its own. A different batch shape may change the
last bits of logits, and with them a choice whose number falls within those bits of a boundary: hardly ever in float32,
in a share of all samples in bfloat16.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.errors import OffleashError
from offleash.samplers.huggingface.attention import Layer, Prompts, Slots
from offleash.samplers.huggingface.forward import Network
from offleash.samplers.huggingface.prefix_tree import FinishedSamples, PrefixRows, Tree, first_rows, placed
from offleash.samplers.sampler import FINISHED, TRUNCATED, SamplingParams
from offleash.samplers.seeds import uniform

MANY, SHORT = 8, 32  # prompts, and tokens of each, from and up to which rows hold their prompt themselves

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Stacked = tuple[list[Layer], torch.Tensor]  # the prompts of several trees, and their lengths
Watch = Callable[[Ints, int, Floats], None]  # samples, their depth, and what their tokens add to the four sums
Stops = Callable[[NDArray[np.int32]], NDArray[np.bool_]]  # rows of tokens in, whether a stop text ends each


@dataclass(frozen=True)
class WalkLimits:
    """What bounds a walk."""

    memory: int = 2 << 30  # bytes for keys and values of rows, and as much again for the trees that are kept
    rows: int = 1024  # in one forward pass
    cells: int = 1 << 24  # of logits in one forward pass: rows times vocabulary
    merge: bool = True


@dataclass
class Walk:
    """N samples on their way: which tree each belongs to, its seed, and the sums over its tokens."""

    network: Network
    decoding: SamplingParams
    ends: Ints  # tokens that end a sample
    trees: Sequence[Tree]
    tree_N: Ints
    seed_N: NDArray[np.uint64]
    limits: WalkLimits = field(default_factory=WalkLimits)
    stops: Stops | None = None
    room: int = 0  # bytes that nodes of trees may still take
    watch: Watch | None = None  # is told of every token
    sums_N4: Floats = field(init=False)  # log-probability raw and as sampled, entropy raw and as sampled

    lead: int = field(init=False)  # tokens of prompts that stand in the rows' own slots; 0: prompts are shared

    def __post_init__(self) -> None:
        self.sums_N4 = np.zeros((len(self.seed_N), 4))
        self.lead = _lead(self.trees)

    def run(self) -> Iterator[FinishedSamples]:
        """All samples, as they end. What does not fit into memory waits, as tokens, and is read again later."""
        waiting: deque[PrefixRows] = deque([first_rows(self.tree_N)])
        while waiting:
            yield from self._down(waiting.pop(), waiting)

    def _down(self, rows: PrefixRows, waiting: deque[PrefixRows]) -> Iterator[FinishedSamples]:
        """One batch of rows to the end of its last sample, one token at a time."""
        prompts, read = _stacked(self.trees), rows.depth == 0
        slots = self.network.spare_slots(self.trees[0].layers, self.lead + rows.depth)
        rows = self._fitting(rows, slots, waiting)
        slots.room(rows.real, self.lead + rows.depth, 0, 0, self._most(slots, rows.depth))
        self._begin(rows, slots, prompts)
        while len(rows.sample_N):
            token_N, node_R = self._chosen(rows, slots, prompts, rows.depth - 1 if read else 0)
            read = True
            ends_N, last = np.isin(token_N, self.ends), rows.depth + 1 == self.decoding.max_tokens
            yield from rows.leaving(self.trees, token_N, ends_N, rows.depth, FINISHED)
            if last:
                for ended in rows.leaving(self.trees, token_N, ~ends_N, rows.depth + 1, TRUNCATED):
                    yield from self._cut(ended)
                return
            begun = rows.depth
            rows = self._next(rows, slots, node_R, token_N, ~ends_N, waiting)
            if not begun:
                self._begin(rows, slots, prompts)
            if self.stops is not None and rows.real:
                stopped_R = np.zeros(rows.real + len(rows.node_Q), np.bool_)
                stopped_R[: rows.real] = self.stops(rows.token_RT[: rows.real, : rows.depth])
                rows, stopped = rows.stopping(self.trees, stopped_R, FINISHED)
                yield stopped

    def _begin(self, rows: PrefixRows, slots: Slots, prompts: Stacked) -> None:
        """Put the prompts of rows into their slots, where they stand there."""
        if self.lead and rows.real:
            which = torch.from_numpy(rows.tree_R).to(self.network.device)
            for layer, prompt in zip(slots.layers, prompts[0], strict=True):
                layer.append(0, rows.real, 0, prompt.keys[which], prompt.values[which])

    def _cut(self, ended: FinishedSamples) -> Iterator[FinishedSamples]:
        """Samples at the limit of tokens; where a stop text is complete with the last one, they finished."""
        stopped_E = np.zeros(len(ended.token_ET), np.bool_) if self.stops is None else self.stops(ended.token_ET)
        for flag, finish in ((False, TRUNCATED), (True, FINISHED)):
            mine_N = stopped_E[ended.sequence_N] == flag
            if mine_N.any():
                yield replace(
                    ended, sample_N=ended.sample_N[mine_N], sequence_N=ended.sequence_N[mine_N], finish=finish
                )

    def _chosen(self, rows: PrefixRows, slots: Slots, prompts: Stacked, have: int) -> tuple[Ints, Ints]:
        """The next token of every sample: its row through the model, or its node's logits, and the sample's number.

        Also the nodes that the real rows became.
        """
        token_N, node_R = np.empty(len(rows.sample_N), np.int64), np.full(rows.real, -1, np.int64)
        number_N = uniform(self.seed_N[rows.sample_N], rows.depth)
        edge = np.searchsorted(rows.row_N, np.arange(rows.real + len(rows.node_Q) + 1))
        rows_a_pass = self.limits.rows // max(1, rows.depth - have)  # rows that are read again have many tokens each
        most = max(1, min(rows_a_pass, self.limits.cells // self.trees[0].logits_NV.shape[1]))
        for start in range(0, rows.real, most):
            stop = min(start + most, rows.real)
            logits = self._forward(rows, slots, prompts, start, stop, have)
            self._keep(rows, slots, logits, start, stop, node_R)
            self._choose(rows, logits, slice(edge[start], edge[stop]), start, number_N, token_N)
        for start in range(0, len(rows.node_Q), most):
            part = slice(start, min(start + most, len(rows.node_Q)))
            logits = torch.cat([self.trees[tree].logits(node) for tree, node in rows.nodes(part)])
            low, high = edge[rows.real + part.start], edge[rows.real + part.stop]
            self._choose(rows, logits, slice(low, high), rows.real + part.start, number_N, token_N)
        return token_N, node_R

    def _forward(
        self, rows: PrefixRows, slots: Slots, prompts: Stacked, start: int, stop: int, have: int
    ) -> torch.Tensor:
        device = self.network.device
        new = torch.from_numpy(rows.token_RT[start:stop, have : rows.depth].astype(np.int64)).to(device)
        if self.lead:
            return self.network.run(slots, start, stop, self.lead + have, new, None)
        which = torch.from_numpy(rows.tree_R[start:stop]).to(device)
        return self.network.run(slots, start, stop, have, new, Prompts.of(prompts[0], prompts[1], which))

    def _choose(
        self, rows: PrefixRows, logits: torch.Tensor, part: slice, first: int, number_N: Floats, token_N: Ints
    ) -> None:
        """Tokens of the samples `part`, whose rows have these logits; their sums grow."""
        found: NextTokenDistribution = distribution(logits, self.decoding)
        row = torch.from_numpy(rows.row_N[part] - first).to(logits.device)
        token = found.choose(row, torch.from_numpy(number_N[part]).to(logits.device))
        sums = torch.stack(
            [
                found.raw_RV[row, token],
                found.sampled_RV[row, token],
                found.entropy_raw_R[row],
                found.entropy_sampled_R[row],
            ],
            1,
        )
        token_N[part] = token.cpu().numpy()
        added_N4 = sums.double().cpu().numpy()
        self.sums_N4[rows.sample_N[part]] += added_N4
        if self.watch is not None:
            self.watch(rows.sample_N[part], rows.depth, added_N4)

    def _keep(self, rows: PrefixRows, slots: Slots, logits: torch.Tensor, start: int, stop: int, node_R: Ints) -> None:
        """Put rows into their trees, where more samples may come and there is memory for it."""
        wanted = start + np.flatnonzero(rows.parent_R[start:stop] >= 0)
        for number in np.unique(rows.tree_R[wanted]):
            mine = wanted[rows.tree_R[wanted] == number]
            needed = self.trees[number].bytes_of(len(mine), self.network.bytes_a_token)
            if needed > self.room:
                return
            self.room -= needed
            slot, last = torch.from_numpy(mine).to(self.network.device), rows.token_RT[mine, rows.depth - 1]
            added = (rows.parent_R[mine], last.astype(np.int64), logits[slot - start], slots, slot, rows.depth)
            node_R[mine] = self.trees[number].add(*added)

    def _next(
        self,
        rows: PrefixRows,
        slots: Slots,
        node_R: Ints,
        token_N: Ints,
        going_N: NDArray[np.bool_],
        waiting: deque[PrefixRows],
    ) -> PrefixRows:
        """The rows one token on; keys and values follow into the slots of those that branch off."""
        after, moves = placed(rows, node_R, token_N, going_N, self.trees, self.limits.merge)
        after = self._fitting(after, slots, waiting)
        most, device = self._most(slots, after.depth), self.network.device
        slots.room(max(after.real, rows.real), self.lead + after.depth, rows.real, self.lead + rows.depth, most)
        stay = moves.target < after.real
        source, target = torch.from_numpy(moves.source[stay]), torch.from_numpy(moves.target[stay])
        slots.copy(source.to(device), target.to(device))
        for tree_number, slot, path in moves.entering:
            here = slot < after.real
            self.trees[tree_number].fill(slots, torch.from_numpy(slot[here]).to(device), path[here])
        return after

    def _fitting(self, rows: PrefixRows, slots: Slots, waiting: deque[PrefixRows]) -> PrefixRows:
        """The rows that memory holds; the others wait."""
        most = self._most(slots, rows.depth)
        if rows.real > most:
            rows, later = rows.split(most)
            waiting.append(later)
        return rows

    def _most(self, slots: Slots, depth: int) -> int:
        return max(1, self.limits.memory // (slots.bytes_a_token * max(1, slots.longer(self.lead + depth))))


def _lead(trees: Sequence[Tree]) -> int:
    """The length of the prompts where each row had better hold its own: many of one length, all of them short.

    To share a prompt costs every step some operations on small blocks; of a short prompt with few rows a copy is less.
    """
    lengths = {len(tree.prompt) for tree in trees}
    if len(trees) < MANY or len(lengths) > 1 or max(lengths) > SHORT or any(tree.keep for tree in trees):
        return 0
    return lengths.pop()


def _stacked(trees: Sequence[Tree]) -> Stacked:
    """The prompts of several trees in one buffer a layer, padded to the longest."""
    length = torch.tensor([len(tree.prompt) for tree in trees], device=trees[0].logits_NV.device)
    if len(trees) == 1:
        return trees[0].layers, length
    longest, stacked = int(length.max()), []
    for place, layer in enumerate(trees[0].layers):
        made = Slots.like([layer], len(trees), longest).layers[0]
        made.keys.zero_()
        made.values.zero_()
        for row, tree in enumerate(trees):
            made.append(row, row + 1, 0, tree.layers[place].keys, tree.layers[place].values)
        stacked.append(made)
    return stacked, length


# From logits to the distribution that is drawn from: temperature, top-k, top-p and min-p.


HEAD = 1024  # tokens that are sorted for top-p at first: a whole vocabulary takes long
LAST = 1.0 - 2.0**-40  # the largest number by which a token is chosen: it stays below 1 when a row's number is added


@dataclass(frozen=True)
class NextTokenDistribution:
    """What R prefixes may go on with: log-probabilities over V tokens, raw and as drawn from, and their entropies."""

    raw_RV: Tensor
    sampled_RV: Tensor  # -inf where the decoding leaves a token out
    entropy_raw_R: Tensor
    entropy_sampled_R: Tensor

    def choose(self, row_N: Tensor, uniform_N: Tensor) -> Tensor:
        """For each of N samples the token in whose part of [0, 1) its number falls, on the row it stands on."""
        R, V = self.sampled_RV.shape
        edge_RV = self.sampled_RV.exp().double().cumsum_(-1)
        if not torch.isfinite(edge_RV[:, -1]).all():
            raise OffleashError(
                "The model gives probabilities that are no numbers (NaN): its weights are damaged, or its precision is "
                "too small for them. Try --set dtype=float32."
            )
        edge_RV /= edge_RV[:, -1:].clone()
        edge_RV += torch.arange(R, dtype=torch.float64, device=edge_RV.device)[:, None]  # one sorted line of all rows
        place_N = torch.searchsorted(edge_RV.view(-1), uniform_N.clamp_max(LAST) + row_N, right=True)
        return place_N - row_N * V


def distribution(logits_RV: Tensor, decoding: SamplingParams) -> NextTokenDistribution:
    """The distribution of the next token, in the order of Hugging Face: temperature, top-k, top-p, min-p."""
    raw_RV = torch.log_softmax(logits_RV.float(), -1)
    entropy_R = _entropy(raw_RV)
    if decoding.plain:
        return NextTokenDistribution(raw_RV, raw_RV, entropy_R, entropy_R)
    sampled_RV = torch.log_softmax(_kept(raw_RV, decoding), -1)
    return NextTokenDistribution(raw_RV, sampled_RV, entropy_R, _entropy(sampled_RV))


def _entropy(log_RV: Tensor) -> Tensor:
    entropy_R: Tensor = -(log_RV.exp() * log_RV.clamp_min(-1e30)).sum(-1)  # 0 log 0 is 0
    return entropy_R


def _kept(raw_RV: Tensor, decoding: SamplingParams) -> Tensor:
    """Scaled log-weights, -inf where a token is left out; the most probable token always stays."""
    if decoding.temperature == 0:
        best_R = raw_RV.argmax(-1, keepdim=True)
        return torch.full_like(raw_RV, -torch.inf).scatter_(-1, best_R, 0.0)
    scaled_RV = raw_RV / decoding.temperature
    if 0 < decoding.top_k < scaled_RV.shape[-1]:
        least_R = scaled_RV.topk(decoding.top_k, -1).values[:, -1:]
        scaled_RV = scaled_RV.masked_fill(scaled_RV < least_R, -torch.inf)
    if decoding.top_p < 1:
        chance_RV = torch.softmax(scaled_RV, -1)
        scaled_RV = scaled_RV.masked_fill(chance_RV < _least_kept(chance_RV, decoding.top_p), -torch.inf)
    if decoding.min_p > 0:
        chance_RV = torch.softmax(scaled_RV, -1)
        floor_R = decoding.min_p * chance_RV.max(-1, keepdim=True).values
        scaled_RV = scaled_RV.masked_fill(chance_RV < floor_R, -torch.inf)
    return scaled_RV


def _least_kept(chance_RV: Tensor, top_p: float) -> Tensor:
    """The probability of the last token that top-p keeps: all that are more probable have less than top_p together.

    Tokens that are exactly as probable stay too: which of them a sort puts first is chance.
    """
    most = min(HEAD, chance_RV.shape[-1])
    head_RH = chance_RV.topk(most, -1).values
    before_RH = head_RH.double().cumsum(-1) - head_RH
    if most < chance_RV.shape[-1] and bool((before_RH[:, -1] < top_p).any()):  # a flat distribution: sort all of it
        head_RH = chance_RV.sort(dim=-1, descending=True).values
        before_RH = head_RH.double().cumsum(-1) - head_RH
    return head_RH.masked_fill(before_RH >= top_p, 2.0).min(-1, keepdim=True).values
