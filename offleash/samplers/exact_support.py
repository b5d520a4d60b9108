"""Exact support: all completions of a prompt that are more probable than epsilon, for samplers that give probabilities.

The interface that analyses/certificates uses. Only `hf:` models in the shared-prefix engine can do it
(huggingface/enumerate_completions.py); other samplers are refused before a model is loaded.
"""

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import numpy as np

from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.sampler import Request, Sampler, SamplingParams

if TYPE_CHECKING:
    from offleash.samplers.huggingface.enumerate_completions import Leaves
    from offleash.samplers.huggingface.forward import Network
    from offleash.samplers.huggingface.loading import LoadedModel
    from offleash.samplers.huggingface.prefix_sampling import WalkLimits
    from offleash.samplers.huggingface.text import PromptEncoder

# Completions down to epsilon / FREE_FACTOR are kept where their last prefix was expanded anyway:
# at most FREE_FACTOR / epsilon.
FREE_FACTOR = 8
TOLERANCE = 1e-6  # by which the mass of completions and the mass cut off may miss 1 together


@dataclass(frozen=True, slots=True)
class Completion:
    """A sequence of tokens up to its end or to the token limit, and its probability.

    Two sequences are two completions, also where their texts are the same. Which of several end tokens ended it makes
    no difference: their probabilities are one.
    """

    tokens: tuple[int, ...]  # without the token that ends it
    text: str
    finish: str  # FINISHED or TRUNCATED
    logprob_sampled: float  # under the distribution that samples are drawn from, its end included
    logprob_raw: float  # under the model's own


@dataclass(frozen=True)
class Expansion:
    """Completions of a prompt, the most probable first, and the probability mass that is not in them."""

    completions: tuple[Completion, ...] = ()
    unexplored: float = 1.0  # 1 less the probabilities of the completions: an upper bound for any other
    prefixes: int = 0  # that were expanded: all those more probable than epsilon
    deepest: int = 0  # tokens of the longest of them
    forwarded: int = 0  # tokens that went through the model
    error: str = ""  # why there is none


class Expander(Protocol):
    """A model that gives the probability of every next token, and so of every completion."""

    @property
    def vocabulary(self) -> str:
        """A hash of the tokenizer: token sequences of two models can be compared only where it is equal."""
        ...

    def expand(
        self, request: Request, decoding: SamplingParams, epsilon: float, progress: Progress = silent
    ) -> Expansion:
        """All completions of a prompt that are more probable than epsilon, each exactly once.

        Args:
            request: the problem; its `first`, `size` and `seed` do not matter.
            decoding: the distribution that samples would be drawn from, and the token limit.
            epsilon: in (0, 1); the work grows as 1 / epsilon times the length.
            progress: called at every depth.

        Returns:
            The completions and the mass left over; an `error` and no completions where the prompt cannot be read.
        """
        ...


def expander_of(sampler: Sampler) -> Expander:
    """The expander of a sampler; an OffleashError where it has none."""
    refuse_sampler(sampler.about.sampler)
    from offleash.samplers.huggingface.sampler import HuggingFace

    assert isinstance(sampler, HuggingFace)
    if sampler.network is None:
        reason = f"it runs through transformers' generate ({sampler.fallback_reason})"
        step = (
            "Leave out --set engine=generate" if sampler.fallback_reason == "as requested" else "Draw samples instead"
        )
        raise OffleashError(f"hf:{sampler.about.model} cannot be expanded: {reason}. {step}.")
    return _SharedPrefixExpander(sampler.loaded, sampler.network, sampler.prompt_encoder, sampler.limits)


def refuse_sampler(name: str) -> None:
    """Refuse samplers that give samples but no distributions, before a model is loaded."""
    if name != "hf":
        raise OffleashError(
            f"Exact support needs the probability of every next token, but {name}: gives only samples. "
            "Name the model as hf:PATH, or draw samples with `offleash draw`."
        )


@dataclass(frozen=True)
class _SharedPrefixExpander:
    """A model of transformers in the engine that shares prefixes."""

    loaded: "LoadedModel"
    network: "Network"
    prompt_encoder: "PromptEncoder"
    limits: "WalkLimits"

    @property
    def vocabulary(self) -> str:
        tokenizer = self.loaded.tokenizer
        regular_tokens = set(tokenizer.get_vocab().items()) - set(tokenizer.get_added_vocab().items())
        # added tokens are left out: training may add one for padding
        text = json.dumps(sorted(regular_tokens, key=lambda pair: pair[1]))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def expand(
        self, request: Request, decoding: SamplingParams, epsilon: float, progress: Progress = silent
    ) -> Expansion:
        from offleash.samplers.huggingface.enumerate_completions import PrefixExpansion
        from offleash.samplers.huggingface.prefix_tree import Tree
        from offleash.samplers.huggingface.text import stop_finder

        tokens, error = self.prompt_encoder.encode(request)
        available_tokens = decoding.max_tokens if self.loaded.context is None else self.loaded.context - len(tokens)
        if not error and available_tokens < 1:
            error = f"the prompt has {len(tokens)} tokens, but the model's context is {self.loaded.context}"
        if error:
            return Expansion(error=error)
        decoding, forwarded_before = (
            replace(decoding, max_tokens=min(available_tokens, decoding.max_tokens)),
            self.network.forwarded,
        )
        ((layers, logits),) = self.network.prefill([tokens])
        expansion = PrefixExpansion(
            self.network,
            decoding,
            np.array(self.loaded.ends, np.int64),
            Tree(tokens, layers, logits[None].float()),
            epsilon,
            epsilon / FREE_FACTOR,
            self.limits,
            stop_finder(self.loaded.tokenizer, decoding.stop) if decoding.stop else None,
            progress,
        )
        leaves = list(expansion.leaves())
        _check_mass(expansion.completed_mass, expansion.unexplored_mass)
        completions = [completion for part in leaves for completion in self._completions(part, decoding)]
        completions.sort(key=lambda completion: (-completion.logprob_sampled, completion.tokens))
        forwarded = self.network.forwarded - forwarded_before
        return Expansion(
            tuple(completions), max(0.0, expansion.unexplored_mass), expansion.prefixes, expansion.deepest, forwarded
        )

    def _completions(self, leaves: "Leaves", decoding: SamplingParams) -> list[Completion]:
        from offleash.samplers.huggingface.prefix_tree import FinishedSamples
        from offleash.samplers.huggingface.text import texts_of

        """Leaves with their texts."""
        token_ET, sequence_E = leaves.token_ET, np.arange(len(leaves.token_ET))
        finished = FinishedSamples(sequence_E, sequence_E, token_ET, token_ET.shape[1], leaves.finish)
        texts = texts_of(self.loaded.tokenizer, finished, decoding.stop)
        rows = zip(token_ET.tolist(), texts, leaves.sums_E2.tolist(), strict=True)
        return [Completion(tuple(tokens), text, leaves.finish, *sums) for tokens, text, sums in rows]


def _check_mass(kept_mass: float, cut_mass: float) -> None:
    """Every prefix was kept or cut exactly once: the two masses must add up to 1."""
    if not np.isfinite(kept_mass + cut_mass):
        raise OffleashError("The model returned NaN probabilities. Try --set dtype=float32.")
    assert abs(kept_mass + cut_mass - 1) < TOLERANCE, (
        f"kept {kept_mass} and cut {cut_mass} do not add up to 1: a prefix was lost"
    )
