"""Exact support: all completions of a prompt that are more probable than epsilon, for samplers that give probabilities.

The interface that analyses/certificates uses. Only `hf:` models in the shared-prefix engine can do it
(huggingface/expand.py); other samplers are refused before a model is loaded.
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

FREE = (
    8  # completions down to epsilon / FREE are kept where their last prefix was expanded anyway: at most FREE/epsilon
)
AGREE = 1e-6  # how near what was found and what was cut off must come to 1


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
    """What can become of a prompt: completions, the most probable first, and the mass that is not in them."""

    completions: tuple[Completion, ...] = ()
    unexplored: float = 1.0
    prefixes: int = 0  # that were expanded: all those more probable than epsilon
    deepest: int = 0  # tokens of the longest of them
    forwarded: int = 0  # tokens that went through the model
    error: str = ""  # why there is none


class Expander(Protocol):
    """Who can tell the probability of every next token, and so of every completion."""

    @property
    def vocabulary(self) -> str:
        """A hash of what the tokens stand for: completions of two models are the same only where it is the same."""
        ...

    def expand(
        self, request: Request, decoding: SamplingParams, epsilon: float, progress: Progress = silent
    ) -> Expansion: ...


def expander_of(sampler: Sampler) -> Expander:
    """The sampler as one that expands; refused where it cannot."""
    refuse_sampler(sampler.about.sampler)
    from offleash.samplers.huggingface.sampler import HuggingFace

    assert isinstance(sampler, HuggingFace)
    if sampler.network is None:
        why = f"it runs by transformers' generate ({sampler.why_generate})"
        step = "leave out --set engine=generate" if sampler.why_generate == "as requested" else "draw samples instead"
        raise OffleashError(f"hf:{sampler.about.model} cannot be expanded: {why}; {step}.")
    return _Shared(sampler.loaded, sampler.network, sampler.prompt_encoder, sampler.limits)


def refuse_sampler(name: str) -> None:
    """Refuse samplers that give samples but no distributions, before a model is loaded."""
    if name != "hf":
        raise OffleashError(
            f"Exact support needs the probability of every next token, and {name}: gives only samples; "
            "name the model as hf:PATH, or draw samples with `offleash draw`."
        )


@dataclass(frozen=True)
class _Shared:
    """A model of transformers in the engine that shares prefixes."""

    loaded: "LoadedModel"
    network: "Network"
    prompt_encoder: "PromptEncoder"
    limits: "WalkLimits"

    @property
    def vocabulary(self) -> str:
        tokenizer = self.loaded.tokenizer
        known = set(tokenizer.get_vocab().items()) - set(tokenizer.get_added_vocab().items())
        # added tokens are left out: training may add one for padding
        text = json.dumps(sorted(known, key=lambda pair: pair[1]))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def expand(
        self, request: Request, decoding: SamplingParams, epsilon: float, progress: Progress = silent
    ) -> Expansion:
        from offleash.samplers.huggingface.enumerate_completions import PrefixExpansion
        from offleash.samplers.huggingface.prefix_tree import Tree
        from offleash.samplers.huggingface.text import stop_finder

        tokens, trouble = self.prompt_encoder.encode(request)
        room = decoding.max_tokens if self.loaded.context is None else self.loaded.context - len(tokens)
        if not trouble and room < 1:
            trouble = f"the prompt has {len(tokens)} tokens and the model reads {self.loaded.context}"
        if trouble:
            return Expansion(error=trouble)
        decoding, before = replace(decoding, max_tokens=min(room, decoding.max_tokens)), self.network.forwarded
        ((layers, logits),) = self.network.read([tokens])
        expansion = PrefixExpansion(
            self.network,
            decoding,
            np.array(self.loaded.ends, np.int64),
            Tree(tokens, layers, logits[None].float()),
            epsilon,
            epsilon / FREE,
            self.limits,
            stop_finder(self.loaded.tokenizer, decoding.stop) if decoding.stop else None,
            progress,
        )
        leaves = list(expansion.leaves())
        _refuse_strange(expansion.kept, expansion.cut)
        found = [one for some in leaves for one in self._completions(some, decoding)]
        found.sort(key=lambda one: (-one.logprob_sampled, one.tokens))
        forwarded = self.network.forwarded - before
        return Expansion(tuple(found), max(0.0, expansion.cut), expansion.prefixes, expansion.deepest, forwarded)

    def _completions(self, leaves: "Leaves", decoding: SamplingParams) -> list[Completion]:
        from offleash.samplers.huggingface.prefix_tree import FinishedSamples
        from offleash.samplers.huggingface.text import texts_of

        token_ET, every = leaves.token_ET, np.arange(len(leaves.token_ET))
        ended = FinishedSamples(every, every, token_ET, token_ET.shape[1], leaves.finish)
        texts = texts_of(self.loaded.tokenizer, ended, decoding.stop)
        rows = zip(token_ET.tolist(), texts, leaves.sums_E2.tolist(), strict=True)
        return [Completion(tuple(tokens), text, leaves.finish, *sums) for tokens, text, sums in rows]


def _refuse_strange(found: float, cut: float) -> None:
    if not np.isfinite(found + cut):
        raise OffleashError(
            "The model gave probabilities that are not numbers; run it in another precision: --set dtype=float32."
        )
    assert abs(found + cut - 1) < AGREE, f"found {found} and cut off {cut} do not make 1: a prefix was lost"
