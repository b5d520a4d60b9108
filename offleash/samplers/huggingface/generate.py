"""The plain engine: `generate` of transformers, for models and prompts (images) that the shared-prefix one cannot run.

Only the choice of each token is ours, by the same random numbers as in prefix_sampling.py, so both engines give the
same samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from offleash.samplers.chat_template import NO_OPTIONS, ChatOptions
from offleash.samplers.huggingface.loading import LoadedModel
from offleash.samplers.huggingface.prefix_sampling import distribution
from offleash.samplers.huggingface.text import cut_at_stop, decode, stop_finder
from offleash.samplers.sampler import FINISHED, TRUNCATED, Request, Sample, SamplingParams
from offleash.samplers.seeds import sample_seeds, uniform


def generate(
    loaded: LoadedModel,
    request: Request,
    tokens: list[int],
    decoding: SamplingParams,
    rows: int,
    options: ChatOptions = NO_OPTIONS,
) -> tuple[Sample, ...]:
    """The samples of one request, at most `rows` of them at a time."""
    transformers: Any = import_module("transformers")
    device, samples = loaded.model.device, []
    inputs = _inputs(loaded, request, tokens, options)
    seeds = sample_seeds(request.seed, request.first, request.size)
    for start in range(0, request.size, rows):
        batch_seeds = seeds[start : start + rows]
        chooser = _TokenChooser(loaded, decoding, batch_seeds)
        # everything off: the decoding is applied by the chooser, in our order and with our random numbers
        settings = transformers.GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            repetition_penalty=1.0,
            max_new_tokens=decoding.max_tokens,
            num_return_sequences=len(batch_seeds),
            eos_token_id=None,  # `is_finished` ends samples
            pad_token_id=loaded.tokenizer.pad_token_id or 0,
        )
        with torch.inference_mode():
            loaded.model.generate(
                **{name: value.to(device) for name, value in inputs.items()},
                generation_config=settings,
                logits_processor=transformers.LogitsProcessorList([chooser.choose]),
                stopping_criteria=transformers.StoppingCriteriaList([chooser.is_finished]),
            )
        samples += chooser.samples(request.first + start)
    return tuple(samples)


def _inputs(loaded: LoadedModel, request: Request, tokens: list[int], options: ChatOptions) -> Mapping[str, Tensor]:
    if not request.images:
        ids = torch.tensor([tokens])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert loaded.processor is not None
    parts: list[dict[str, str]] = [{"type": "image", "url": address} for address in request.images]
    # processors take the content of every message as parts
    system = [{"role": "system", "content": [{"type": "text", "text": options.system}]}] if options.system else []
    messages: Any = [*system, {"role": "user", "content": [*parts, {"type": "text", "text": request.prompt}]}]
    encoded: Mapping[str, Tensor] = loaded.processor.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt", **options.kwargs
    )
    return encoded


@dataclass
class _TokenChooser:
    """Chooses the tokens of some samples step by step inside `generate`, and remembers what it chose.

    It acts as a logits processor that leaves one token per row, so that whatever `generate` draws is that token.
    """

    loaded: LoadedModel
    decoding: SamplingParams
    seed_N: NDArray[np.uint64]
    _tokens: list[NDArray[np.int64]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._sums_N4 = np.zeros((len(self.seed_N), 4))
        self._length_N = np.zeros(len(self.seed_N), np.int64)
        self._text_length_N = np.zeros(len(self.seed_N), np.int64)
        self._open_N = np.ones(len(self.seed_N), np.bool_)
        self._stops = stop_finder(self.loaded.tokenizer, self.decoding.stop) if self.decoding.stop else None

    def choose(self, _: Tensor, scores: Tensor) -> Tensor:
        """Scores that leave only the token chosen."""
        next_token, row = distribution(scores, self.decoding), torch.arange(len(scores), device=scores.device)
        number = torch.from_numpy(uniform(self.seed_N, len(self._tokens))).to(scores.device)
        token = next_token.choose(row, number)
        logprobs = [next_token.raw_RV[row, token], next_token.sampled_RV[row, token]]
        columns = [*logprobs, next_token.entropy_raw_R, next_token.entropy_sampled_R]
        self._sums_N4[self._open_N] += torch.stack(columns, 1).double().cpu().numpy()[self._open_N]
        self._tokens.append(token.cpu().numpy())
        self._length_N[self._open_N] += 1
        self._close()
        return torch.full_like(scores, -torch.inf).scatter_(-1, token[:, None], 0.0)

    def is_finished(self, ids: Tensor, _: Tensor, **__: object) -> Tensor:
        """Which samples have ended, for `generate`'s stopping criteria."""
        return torch.from_numpy(~self._open_N).to(ids.device)

    def samples(self, first: int) -> list[Sample]:
        """What was chosen, as samples with their indices from `first` on."""
        token_NT = np.stack(self._tokens, 1)
        rows = [token_NT[index, :length].tolist() for index, length in enumerate(self._text_length_N)]
        texts = decode(self.loaded.tokenizer, rows)
        return [
            Sample(
                first + index,
                cut_at_stop(text, self.decoding.stop),
                int(self._length_N[index]),
                TRUNCATED if self._open_N[index] else FINISHED,
                int(self.seed_N[index]),
                *self._sums_N4[index].tolist(),
            )
            for index, text in enumerate(texts)
        ]

    def _close(self) -> None:
        """End the samples whose last token is an end token, or whose text has come to a stop text."""
        ends_N = self._open_N & np.isin(self._tokens[-1], self.loaded.ends)
        self._text_length_N[self._open_N & ~ends_N] += 1
        self._open_N &= ~ends_N
        if self._stops is not None and self._open_N.any():
            index_N = np.flatnonzero(self._open_N)
            tokens = np.stack(self._tokens, 1)[index_N].astype(np.int32)
            self._open_N[index_N] = ~self._stops(tokens)
