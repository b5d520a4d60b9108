"""Drawing over the prefix tree: all samples advance together, and each distinct prefix goes through the model once.

Why merged samples are still independent: a sample is a function of its random numbers u(i, 0), u(i, 1), ... alone. At
every depth it takes the token in whose part of [0, 1) its own number falls, under the distribution of its own prefix,
and that distribution is a function of the prefix. Computing it once for all samples that share the prefix changes no
value that any of them sees. The numbers are hashes of (seed, problem, index, position) (seeds.py), independent between
samples: so are the samples, and each is the same whatever is drawn beside it, in whatever order, before or after a
restart.

Merging saves the forward pass of a prefix that several samples share; once they have all diverged, each is a row of its
own. One caveat: a different batch shape may change the last bits of logits, and with them a choice whose number falls
within those bits of a boundary: hardly ever in float32, in a share of all samples in bfloat16.
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
from offleash.samplers.huggingface.prefix_tree import FinishedSamples, PrefixRows, Tree, advance, root_rows
from offleash.samplers.sampler import FINISHED, TRUNCATED, SamplingParams
from offleash.samplers.seeds import uniform

# From this many prompts on, all of one length up to so many tokens, rows hold a copy of their prompt.
MANY_PROMPTS, SHORT_PROMPT = 8, 32

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
StackedPrompts = tuple[list[Layer], torch.Tensor]  # of several trees in one buffer per layer, and their lengths
OnTokens = Callable[[Ints, int, Floats], None]  # samples, their depth, and what their tokens add to the four sums
Stops = Callable[[NDArray[np.int32]], NDArray[np.bool_]]  # rows of tokens in, whether a stop text ends each


@dataclass(frozen=True)
class WalkLimits:
    """What bounds a walk."""

    memory: int = 2 << 30  # bytes for keys and values of rows, and the same once more for the trees that are kept
    rows: int = 1024  # in one forward pass
    cells: int = 1 << 24  # of logits in one forward pass: rows times vocabulary
    merge: bool = True  # share the rows of equal prefixes; off only to measure what it saves


@dataclass
class Walk:
    """N samples on their way down their trees: which tree each belongs to, its seed, and the sums over its tokens."""

    network: Network
    decoding: SamplingParams
    ends: Ints  # tokens that end a sample
    trees: Sequence[Tree]
    tree_N: Ints
    seed_N: NDArray[np.uint64]
    limits: WalkLimits = field(default_factory=WalkLimits)
    stops: Stops | None = None
    node_bytes: int = 0  # that nodes of trees may still take
    on_tokens: OnTokens | None = None  # called for every token
    sums_N4: Floats = field(init=False)  # log-probability raw and as sampled, entropy raw and as sampled

    inlined: int = field(init=False)  # tokens of the prompt copied into every row's own slot; 0: prompts are shared

    def __post_init__(self) -> None:
        self.sums_N4 = np.zeros((len(self.seed_N), 4))
        self.inlined = _inlined_tokens(self.trees)

    def run(self) -> Iterator[FinishedSamples]:
        """All samples, as they end.

        Rows that do not fit into memory wait, as tokens without keys and values, and are read again later. The last to
        wait is the first to go on: it is the deepest, and so the number of waiting rows stays small.
        """
        waiting: deque[PrefixRows] = deque([root_rows(self.tree_N)])
        while waiting:
            yield from self._descend(waiting.pop(), waiting)

    def _descend(self, rows: PrefixRows, waiting: deque[PrefixRows]) -> Iterator[FinishedSamples]:
        """One batch of rows to the end of its last sample, one token at a time."""
        prompts = _stack_prompts(self.trees)
        # rows that waited have tokens but no keys and values: their first pass reads all of them
        append_tokens = rows.depth > 0
        slots = self.network.spare_slots(self.trees[0].layers, self.inlined + rows.depth)
        rows = self._fit(rows, slots, waiting)
        slots.reserve(rows.real, self.inlined + rows.depth, 0, 0, self._max_rows(slots, rows.depth))
        self._inline_prompts(rows, slots, prompts)
        while len(rows.sample_N):
            token_N, node_R = self._choose_tokens(rows, slots, prompts, 0 if append_tokens else rows.depth - 1)
            append_tokens = False
            ends_N, last = np.isin(token_N, self.ends), rows.depth + 1 == self.decoding.max_tokens
            yield from rows.finished(self.trees, token_N, ends_N, rows.depth, FINISHED)
            if last:
                for truncated in rows.finished(self.trees, token_N, ~ends_N, rows.depth + 1, TRUNCATED):
                    yield from self._split_truncated(truncated)
                return
            at_root = rows.depth == 0
            rows = self._next(rows, slots, node_R, token_N, ~ends_N, waiting)
            if at_root:  # the first real rows have just been made
                self._inline_prompts(rows, slots, prompts)
            # only real rows are searched: a prefix that ends with a stop text never becomes a node
            if self.stops is not None and rows.real:
                stopped_R = np.zeros(rows.real + len(rows.node_Q), np.bool_)
                stopped_R[: rows.real] = self.stops(rows.token_RT[: rows.real, : rows.depth])
                rows, stopped_samples = rows.without_stopped(self.trees, stopped_R, FINISHED)
                yield stopped_samples

    def _inline_prompts(self, rows: PrefixRows, slots: Slots, prompts: StackedPrompts) -> None:
        """Copy the prompts of rows into their slots, where they are inlined."""
        if self.inlined and rows.real:
            tree_index_R = torch.from_numpy(rows.tree_R).to(self.network.device)
            for layer, prompt in zip(slots.layers, prompts[0], strict=True):
                layer.append(0, rows.real, 0, prompt.keys[tree_index_R], prompt.values[tree_index_R])

    def _split_truncated(self, finished: FinishedSamples) -> Iterator[FinishedSamples]:
        """Samples at the token limit; those whose stop text is complete with the last token did finish."""
        stopped_E = np.zeros(len(finished.token_ET), np.bool_) if self.stops is None else self.stops(finished.token_ET)
        for flag, finish in ((False, TRUNCATED), (True, FINISHED)):
            selected_N = stopped_E[finished.sequence_N] == flag
            if selected_N.any():
                yield replace(
                    finished,
                    sample_N=finished.sample_N[selected_N],
                    sequence_N=finished.sequence_N[selected_N],
                    finish=finish,
                )

    def _choose_tokens(self, rows: PrefixRows, slots: Slots, prompts: StackedPrompts, cached: int) -> tuple[Ints, Ints]:
        """The next token of every sample, and the nodes that the real rows became (-1: none).

        The logits of a sample's prefix come from a forward pass or from the tree; its own random number chooses.
        """
        token_N, node_R = np.empty(len(rows.sample_N), np.int64), np.full(rows.real, -1, np.int64)
        uniform_number_N = uniform(self.seed_N[rows.sample_N], rows.depth)
        # samples [edge[r], edge[r + 1]) are at row r, since samples are ordered by row
        row_start = np.searchsorted(rows.row_N, np.arange(rows.real + len(rows.node_Q) + 1))
        rows_per_pass = self.limits.rows // max(1, rows.depth - cached)  # rows that are read again have many tokens
        step = max(1, min(rows_per_pass, self.limits.cells // self.trees[0].logits_NV.shape[1]))
        for start in range(0, rows.real, step):
            stop = min(start + step, rows.real)
            logits = self._forward(rows, slots, prompts, start, stop, cached)
            self._add_nodes(rows, slots, logits, start, stop, node_R)
            self._choose(rows, logits, slice(row_start[start], row_start[stop]), start, uniform_number_N, token_N)
        for start in range(0, len(rows.node_Q), step):
            part = slice(start, min(start + step, len(rows.node_Q)))
            logits = torch.cat([self.trees[tree].logits(node) for tree, node in rows.nodes(part)])
            low, high = row_start[rows.real + part.start], row_start[rows.real + part.stop]
            self._choose(rows, logits, slice(low, high), rows.real + part.start, uniform_number_N, token_N)
        return token_N, node_R

    def _forward(
        self, rows: PrefixRows, slots: Slots, prompts: StackedPrompts, start: int, stop: int, cached: int
    ) -> torch.Tensor:
        """Logits after rows [start, stop), whose first `cached` tokens have keys and values already."""
        device = self.network.device
        new = torch.from_numpy(rows.token_RT[start:stop, cached : rows.depth].astype(np.int64)).to(device)
        if self.inlined:
            return self.network.run(slots, start, stop, self.inlined + cached, new, None)
        tree_index_R = torch.from_numpy(rows.tree_R[start:stop]).to(device)
        return self.network.run(slots, start, stop, cached, new, Prompts.of(prompts[0], prompts[1], tree_index_R))

    def _choose(
        self, rows: PrefixRows, logits: torch.Tensor, part: slice, first: int, uniform_number_N: Floats, token_N: Ints
    ) -> None:
        """Write the tokens of the samples `part`, whose rows from `first` on have these logits; their sums grow."""
        next_token = distribution(logits, self.decoding)
        row = torch.from_numpy(rows.row_N[part] - first).to(logits.device)
        token = next_token.choose(row, torch.from_numpy(uniform_number_N[part]).to(logits.device))
        sums = torch.stack(
            [
                next_token.raw_RV[row, token],
                next_token.sampled_RV[row, token],
                next_token.entropy_raw_R[row],
                next_token.entropy_sampled_R[row],
            ],
            1,
        )
        token_N[part] = token.cpu().numpy()
        added_N4 = sums.double().cpu().numpy()  # thousands of tokens are summed: in 64 bits
        self.sums_N4[rows.sample_N[part]] += added_N4
        if self.on_tokens is not None:
            self.on_tokens(rows.sample_N[part], rows.depth, added_N4)

    def _add_nodes(
        self, rows: PrefixRows, slots: Slots, logits: torch.Tensor, start: int, stop: int, node_R: Ints
    ) -> None:
        """Put rows into their trees, where more samples are expected and as long as there is memory for it."""
        new_node_rows = start + np.flatnonzero(rows.parent_R[start:stop] >= 0)
        for number in np.unique(rows.tree_R[new_node_rows]):
            rows_of_tree = new_node_rows[rows.tree_R[new_node_rows] == number]
            needed_bytes = self.trees[number].bytes_for_tokens(len(rows_of_tree), self.network.bytes_per_token)
            if needed_bytes > self.node_bytes:
                return
            self.node_bytes -= needed_bytes
            slot, last = (
                torch.from_numpy(rows_of_tree).to(self.network.device),
                rows.token_RT[rows_of_tree, rows.depth - 1],
            )
            added = (rows.parent_R[rows_of_tree], last.astype(np.int64), logits[slot - start], slots, slot, rows.depth)
            node_R[rows_of_tree] = self.trees[number].add(*added)

    def _next(
        self,
        rows: PrefixRows,
        slots: Slots,
        node_R: Ints,
        token_N: Ints,
        continuing_N: NDArray[np.bool_],
        waiting: deque[PrefixRows],
    ) -> PrefixRows:
        """The rows one token on; keys and values follow into the slots of those that branch off.

        Moves into slots beyond the capacity are dropped: those rows wait, and will be read again.
        """
        after, moves = advance(rows, node_R, token_N, continuing_N, self.trees, self.limits.merge)
        after = self._fit(after, slots, waiting)
        max_rows, device = self._max_rows(slots, after.depth), self.network.device
        kept_tokens = self.inlined + rows.depth
        slots.reserve(max(after.real, rows.real), self.inlined + after.depth, rows.real, kept_tokens, max_rows)
        fits = moves.target < after.real
        source, target = torch.from_numpy(moves.source[fits]), torch.from_numpy(moves.target[fits])
        slots.copy(source.to(device), target.to(device))
        for tree_number, slot, path in moves.leaving_tree:
            here = slot < after.real
            self.trees[tree_number].fill(slots, torch.from_numpy(slot[here]).to(device), path[here])
        return after

    def _fit(self, rows: PrefixRows, slots: Slots, waiting: deque[PrefixRows]) -> PrefixRows:
        """The rows that memory can hold; the others wait."""
        max_rows = self._max_rows(slots, rows.depth)
        if rows.real > max_rows:
            rows, remaining_rows = rows.split(max_rows)
            waiting.append(remaining_rows)
        return rows

    def _max_rows(self, slots: Slots, depth: int) -> int:
        """Rows of so many tokens whose keys and values fit into memory."""
        tokens = max(1, slots.token_capacity(self.inlined + depth))
        return max(1, self.limits.memory // (slots.bytes_per_token * tokens))


def _inlined_tokens(trees: Sequence[Tree]) -> int:
    """The length of the prompts where each row had better hold a copy: many of one length, all of them short. Else 0.

    A shared prompt costs every step some operations on small blocks; for a short prompt with few rows, a copy costs
    less. Never with trees that are kept: their nodes hold the keys of tokens after the prompt, from position 0 of a
    slot.
    """
    lengths = {len(tree.prompt) for tree in trees}
    many_prompts, are_short = len(trees) >= MANY_PROMPTS, max(lengths) <= SHORT_PROMPT
    if not many_prompts or len(lengths) > 1 or not are_short or any(tree.keep for tree in trees):
        return 0
    return lengths.pop()


def _stack_prompts(trees: Sequence[Tree]) -> StackedPrompts:
    """The prompts of several trees in one buffer per layer, padded with zeros to the longest."""
    length = torch.tensor([len(tree.prompt) for tree in trees], device=trees[0].logits_NV.device)
    if len(trees) == 1:
        return trees[0].layers, length
    longest, stacked_layers = int(length.max()), []
    for index, layer in enumerate(trees[0].layers):
        buffer = Slots.allocate_like([layer], len(trees), longest).layers[0]
        for row, tree in enumerate(trees):
            buffer.append(row, row + 1, 0, tree.layers[index].keys, tree.layers[index].values)
        stacked_layers.append(buffer)
    return stacked_layers, length


# From logits to the distribution that is drawn from: temperature, top-k, top-p and min-p.


TOP_P_SORT_SIZE = 1024  # most probable tokens that are sorted for top-p at first: sorting a whole vocabulary takes long
# The largest random number that is used. Rows up to 2**12 are added to numbers in 64 bits, which leaves 40 bits behind
# the point: a number nearer to 1 would round up into the next row.
MAX_UNIFORM = 1.0 - 2.0**-40


@dataclass(frozen=True)
class NextTokenDistribution:
    """What may follow R prefixes: log-probabilities over V tokens, raw and as drawn from, and entropies in nats."""

    raw_RV: Tensor
    sampled_RV: Tensor  # -inf where the decoding leaves a token out
    entropy_raw_R: Tensor
    entropy_sampled_R: Tensor

    def choose(self, row_N: Tensor, uniform_N: Tensor) -> Tensor:
        """For each of N samples the token in whose part of [0, 1) its number falls, by the distribution of its row.

        Inversion of the cumulative distribution: a sample's token depends on its own row and its own number, whatever
        the other samples on that row choose. Tokens of probability 0 are never chosen, since their part is empty.
        """
        R, V = self.sampled_RV.shape
        cumulative_RV = self.sampled_RV.exp().double().cumsum_(-1)
        if not torch.isfinite(cumulative_RV[:, -1]).all():
            raise OffleashError(
                "The model returned NaN probabilities: its weights are damaged, or its precision is too low. "
                "Try --set dtype=float32."
            )
        cumulative_RV /= cumulative_RV[
            :, -1:
        ].clone()  # the last edge is exactly 1, whatever the probabilities round to
        # row r is moved to [r, r + 1): the edges of all rows are one sorted line, and one search serves all samples
        cumulative_RV += torch.arange(R, dtype=torch.float64, device=cumulative_RV.device)[:, None]
        index_N = torch.searchsorted(cumulative_RV.view(-1), uniform_N.clamp_max(MAX_UNIFORM) + row_N, right=True)
        return index_N - row_N * V


def distribution(logits_RV: Tensor, decoding: SamplingParams) -> NextTokenDistribution:
    """The distribution of the next token, in the order of Hugging Face: temperature, top-k, top-p, min-p.

    Each option acts on what the one before it left, renormalised. In 32 bits, whatever the model's precision.
    """
    raw_RV = torch.log_softmax(logits_RV.float(), -1)
    entropy_R = _entropy(raw_RV)
    if decoding.is_plain:
        return NextTokenDistribution(raw_RV, raw_RV, entropy_R, entropy_R)
    sampled_RV = torch.log_softmax(_truncate(raw_RV, decoding), -1)
    return NextTokenDistribution(raw_RV, sampled_RV, entropy_R, _entropy(sampled_RV))


def _entropy(log_RV: Tensor) -> Tensor:
    entropy_R: Tensor = -(log_RV.exp() * log_RV.clamp_min(-1e30)).sum(-1)  # 0 log 0 is 0
    return entropy_R


def _truncate(raw_RV: Tensor, decoding: SamplingParams) -> Tensor:
    """Scaled log-weights, -inf where a token is left out; the most probable token always stays."""
    if decoding.temperature == 0:
        best_R = raw_RV.argmax(-1, keepdim=True)
        return torch.full_like(raw_RV, -torch.inf).scatter_(-1, best_R, 0.0)
    scaled_RV = raw_RV / decoding.temperature
    if 0 < decoding.top_k < scaled_RV.shape[-1]:
        min_logit_R = scaled_RV.topk(decoding.top_k, -1).values[
            :, -1:
        ]  # ties with the k-th all stay, as in transformers
        scaled_RV = scaled_RV.masked_fill(scaled_RV < min_logit_R, -torch.inf)
    if decoding.top_p < 1:
        chance_RV = torch.softmax(scaled_RV, -1)
        scaled_RV = scaled_RV.masked_fill(chance_RV < _smallest_kept(chance_RV, decoding.top_p), -torch.inf)
    if decoding.min_p > 0:
        chance_RV = torch.softmax(scaled_RV, -1)
        min_p_R = decoding.min_p * chance_RV.max(-1, keepdim=True).values
        scaled_RV = scaled_RV.masked_fill(chance_RV < min_p_R, -torch.inf)
    return scaled_RV


def _smallest_kept(chance_RV: Tensor, top_p: float) -> Tensor:
    """The probability of the last token that top-p keeps: all that are more probable have less than top_p together.

    Tokens that are exactly as probable stay too: which of them a sort puts first is arbitrary.
    """
    head = min(TOP_P_SORT_SIZE, chance_RV.shape[-1])
    head_RH = chance_RV.topk(head, -1).values
    before_RH = head_RH.double().cumsum(-1) - head_RH
    if head < chance_RV.shape[-1] and bool((before_RH[:, -1] < top_p).any()):  # a flat distribution: sort all of it
        head_RH = chance_RV.sort(dim=-1, descending=True).values
        before_RH = head_RH.double().cumsum(-1) - head_RH
    # 2.0 is above any probability: tokens that top-p drops do not count for the minimum
    return head_RH.masked_fill(before_RH >= top_p, 2.0).min(-1, keepdim=True).values
