"""Forcing: given texts through the shared engine: prompts read once, pieces that bound logits, keys and values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.samplers.huggingface.attention import Prompts
from offleash.samplers.huggingface.distribution import distribution
from offleash.samplers.huggingface.network import Network
from offleash.samplers.huggingface.slots import Layer, Slots
from offleash.samplers.huggingface.walk import Limits
from offleash.samplers.sampler import Decoding

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
END = -1  # stands for the end of a text, whichever of the model's ends that is
PIECE = 256  # tokens of a row in one forward pass: beyond it longer pieces are no faster
SHARE = 4  # parts of the memory: prompts may take one (while they are stacked, two), rows two


@dataclass(frozen=True)
class Given:
    """A text to be read after one of several prompts."""

    place: int  # of its sums
    prompt: int
    token_T: Ints  # at least one; END at most as the last
    start: int = 0  # tokens of the text before these, where it is read in windows

    @property
    def length(self) -> int:
        return len(self.token_T)


@dataclass(frozen=True)
class Summing:
    """Sums over the tokens of N texts, which grow as logits come by: columns as in Sums."""

    decoding: Decoding
    ends: tuple[int, ...]
    cells: int
    sums_N4: Floats
    entropy_F: NDArray[np.float32]  # of every token of all texts, one after the other, by the model's own distribution
    offset_N: Ints  # where each text begins in it

    def add(self, logits_MV: Tensor, token_M: Ints, place_M: Ints, at_M: Ints) -> None:
        """Add what M distributions say of the tokens that follow: token number `at` of the text `place`."""
        most = max(1, self.cells // SHARE // logits_MV.shape[1])  # sorting for top-p takes several copies
        for start in range(0, len(token_M), most):
            part = slice(start, start + most)
            found = distribution(logits_MV[part], self.decoding)
            token = torch.from_numpy(token_M[part]).to(logits_MV.device)
            four = [
                self._foretold(found.raw_RV, token),
                found.entropy_raw_R,
                self._foretold(found.sampled_RV, token),
                found.entropy_sampled_R,
            ]
            four_M4 = torch.stack(four, 1).double().cpu().numpy()
            np.add.at(self.sums_N4, place_M[part], four_M4)
            self.entropy_F[self.offset_N[place_M[part]] + at_M[part]] = four_M4[:, 1]

    def _foretold(self, logprob_RV: Tensor, token_R: Tensor) -> Tensor:
        """Log-probability of the tokens that follow; of an end, that of any of the model's ends: a text ends in all."""
        row = torch.arange(len(token_R), device=token_R.device)
        found = logprob_RV[row, token_R.clamp(min=0)]
        if not self.ends or not bool((token_R == END).any()):
            return found
        return torch.where(token_R == END, logprob_RV[:, list(self.ends)].logsumexp(-1), found)


def force(
    network: Network,
    limits: Limits,
    context: int | None,
    prompts: Sequence[list[int]],
    given: Sequence[Given],
    summing: Summing,
) -> None:
    """Read every text after its prompt and add up its sums. Their order does not matter."""
    of_prompt: dict[int, list[Given]] = {}
    for one in given:
        of_prompt.setdefault(one.prompt, []).append(one)
    layers, logits = network.read([prompts[next(iter(of_prompt))][:1]])[0]
    shape = _Shape(Slots.like(layers, 0, 0).bytes_a_token, len(logits), _heads(network), len(layers))
    for wave in _waves(prompts, list(of_prompt), limits, shape):
        texts = [one for prompt in wave for one in of_prompt[prompt]]
        stacked, length_G, logits_GV = _prefill(network, [prompts[prompt] for prompt in wave])
        row_N = np.array([wave.index(one.prompt) for one in texts])
        first_N, place_N = np.array([one.token_T[0] for one in texts]), np.array([one.place for one in texts])
        start_N = np.array([one.start for one in texts])
        for start in range(0, len(texts), max(1, limits.cells // shape.vocabulary)):
            part = slice(start, start + max(1, limits.cells // shape.vocabulary))
            rows = torch.from_numpy(row_N[part]).to(network.device)
            summing.add(logits_GV[rows], first_N[part], place_N[part], start_N[part])
        longer = [(one, row) for one, row in zip(texts, row_N.tolist(), strict=True) if one.length > 1]
        for batch, piece in _batches(longer, [len(prompts[prompt]) for prompt in wave], limits, context, shape):
            _force_batch(network, stacked, length_G, batch, piece, summing)


@dataclass(frozen=True)
class _Shape:
    """What bounds a forward pass."""

    bytes_a_token: int  # of keys and values
    vocabulary: int
    heads: int
    layers: int

    def positions(self, cells: int, seen: int) -> int:
        """New tokens in a pass: by their logits, and by the scores of one layer's attention over `seen` tokens."""
        return max(1, min(cells // self.vocabulary, SHARE * cells // (self.heads * seen)))

    def rows(self, memory: int, own: int, seen: int) -> int:
        """Rows whose keys and values fit, with the copies that one layer at a time makes of all it sees."""
        return max(1, memory // SHARE * 2 // (self.bytes_a_token * (own + 3 * seen // self.layers + 1)))


def _waves(prompts: Sequence[list[int]], wanted: list[int], limits: Limits, shape: _Shape) -> Iterator[list[int]]:
    """Prompts that are held together, of similar length since they are padded to the longest."""
    wave: list[int] = []
    for prompt in sorted(wanted, key=lambda one: len(prompts[one])):
        size = (len(wave) + 1) * len(prompts[prompt]) * shape.bytes_a_token
        if wave and (size > limits.memory // SHARE or (len(wave) + 1) * shape.vocabulary > limits.cells):
            yield wave
            wave = []
        wave.append(prompt)
    if wave:
        yield wave


def _batches(
    texts: list[tuple[Given, int]], prompt_G: list[int], limits: Limits, context: int | None, shape: _Shape
) -> Iterator[tuple[list[tuple[Given, int]], int]]:
    """Rows that go together, longest first, and the tokens of each in one forward pass."""
    ordered = sorted(texts, key=lambda one: -one[0].length)
    while ordered:
        own, prompt = ordered[0][0].length - 1, max(prompt_G)
        positions = shape.positions(limits.cells, own + prompt)
        piece = min(own, PIECE, positions)
        most = min(limits.rows, positions // piece, shape.rows(limits.memory, own, own + prompt))
        batch: list[tuple[Given, int]] = []
        longest = 0
        for one in ordered[: max(1, most)]:
            longest = max(longest, prompt_G[one[1]])
            # padding has positions too, and a model with a table of them reads none beyond its context
            if batch and context is not None and longest + own > context:
                break
            batch.append(one)
        yield batch, piece
        ordered = ordered[len(batch) :]


def _force_batch(
    network: Network,
    stacked: list[Layer],
    length_G: Tensor,
    batch: list[tuple[Given, int]],
    piece: int,
    summing: Summing,
) -> None:
    """Rows, longest first, piece by piece; a row that has come to its end is read no further."""
    length_R = np.array([one.length for one, _ in batch]) - 1  # the last token is foretold and not read
    token_RT = np.zeros((len(batch), length_R[0] + 1), np.int64)
    for row, (one, _) in enumerate(batch):
        token_RT[row, : one.length] = one.token_T
    place_R, start_R = np.array([(one.place, one.start) for one, _ in batch]).T
    prompt_R = torch.tensor([row for _, row in batch], device=network.device)
    slots = Slots.like(stacked, len(batch), int(length_R[0]))
    for have in range(0, int(length_R[0]), piece):
        rows, stop = int((length_R > have).sum()), min(have + piece, int(length_R[0]))
        new = torch.from_numpy(np.maximum(token_RT[:rows, have:stop], 0)).to(network.device)
        prompts = Prompts.of(stacked, length_G, prompt_R[:rows])
        logits = network.run(slots, 0, rows, have, new, prompts, every=True)
        real_RT = np.arange(have, stop) < length_R[:rows, None]
        row_M, column_M = np.nonzero(real_RT)
        wanted = logits[torch.from_numpy(real_RT).to(network.device)]
        at_M = start_R[row_M] + have + 1 + column_M
        summing.add(wanted, token_RT[:rows, have + 1 : stop + 1][real_RT], place_R[row_M], at_M)


def _prefill(network: Network, prompts: list[list[int]]) -> tuple[list[Layer], Tensor, Tensor]:
    """Keys and values of prompts in one buffer a layer, padded to the longest; their lengths; logits after each."""
    read = network.read(prompts)
    length_G = torch.tensor([len(prompt) for prompt in prompts], device=network.device)
    logits_GV = torch.stack([logits for _, logits in read])
    if len(read) == 1:
        return read[0][0], length_G, logits_GV
    stacked = Slots.like(read[0][0], len(prompts), int(length_G.max())).layers
    for place, layer in enumerate(stacked):
        for row, (layers, _) in enumerate(read):
            layer.append(row, row + 1, 0, layers[place].keys, layers[place].values)
    return stacked, length_G, logits_GV


def _heads(network: Network) -> int:
    from transformers import PreTrainedModel

    assert isinstance(network.model, PreTrainedModel)
    return int(getattr(network.model.config.get_text_config(), "num_attention_heads", 1))
