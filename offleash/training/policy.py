"""The policy: a model that is trained, drawn from on the fast engine and read with gradients."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from torch import Tensor

from offleash.errors import OffleashError
from offleash.samplers.huggingface.attention import NAME, UnsupportedError
from offleash.samplers.huggingface.loading import Loaded, loaded, settings_of
from offleash.samplers.huggingface.network import Network, network
from offleash.samplers.huggingface.text import Asking, decoded
from offleash.samplers.huggingface.tree import Tree
from offleash.samplers.huggingface.walk import Limits, Walk
from offleash.samplers.models import model_of
from offleash.samplers.sampler import TRUNCATED, Decoding, Request
from offleash.samplers.seeds import sample_seeds
from offleash.training.forward import by_rows, by_trees, trees_agree
from offleash.training.method import Flags, Floats, Ints
from offleash.training.rows import Rows

CHECKED = 4  # prompts and samples by which it is seen whether trees may be used


@dataclass(frozen=True)
class Samples:
    """What was drawn, in the order of the prompts, `size` samples each."""

    rows: Rows
    logprob_NT: Floats  # as drawn, at the temperature; 0 behind the end
    entropy_NT: Floats
    truncated_N: Flags
    texts: tuple[str, ...]


@dataclass
class Policy:
    """A model in memory."""

    loaded: Loaded
    network: Network
    asking: Asking
    limits: Limits
    plain: str  # the attention with which gradients are computed: the model's own
    trees: bool | None = None  # whether gradients go by trees; None: not seen yet

    def tokens(self, prompt: str) -> list[int]:
        """A prompt as the model reads it."""
        tokens, trouble = self.asking.tokens(Request("", prompt, 0, 1, 0))
        if trouble:
            raise OffleashError(f"The prompt {prompt[:80]!r} cannot be asked: {trouble}.")
        return tokens

    def answer(self, text: str) -> list[int]:
        """A text as the model would write it, its end included."""
        usual, ends = self.loaded.tokenizer.eos_token_id, self.loaded.ends
        return [*self.loaded.tokenizer.encode(text, add_special_tokens=False), usual if usual in ends else ends[0]]

    def draw(self, prompts: Sequence[list[int]], size: int, seeds: Sequence[int], decoding: Decoding) -> Samples:
        """`size` samples of every prompt; a sample depends on its prompt, its seed and the weights alone."""
        decoding = self._within(prompts, decoding)
        self.loaded.model.eval()
        self.loaded.model.set_attn_implementation(NAME)
        read = zip(prompts, self.network.read([list(prompt) for prompt in prompts]), strict=True)
        trees = [Tree(list(prompt), layers, logits[None].float()) for prompt, (layers, logits) in read]
        N, T = len(prompts) * size, decoding.max_tokens
        taken = Samples(
            Rows(prompts, np.repeat(np.arange(len(prompts)), size), np.zeros((N, T), np.int64), np.zeros(N, np.int64)),
            np.zeros((N, T)),
            np.zeros((N, T)),
            np.zeros(N, np.bool_),
            (),
        )

        def watch(sample_N: Ints, depth: int, added_N4: Floats) -> None:
            taken.logprob_NT[sample_N, depth] = added_N4[:, 1]
            taken.entropy_NT[sample_N, depth] = added_N4[:, 3]

        seed_N = np.concatenate([sample_seeds(seed, 0, size) for seed in seeds])
        ends = np.array(self.loaded.ends, np.int64)
        walk = Walk(self.network, decoding, ends, trees, taken.rows.prompt_N, seed_N, self.limits, watch=watch)
        texts = [""] * N
        for ended in walk.ended():
            length = ended.token_ET.shape[1]
            taken.rows.token_NT[ended.sample_N, :length] = ended.token_ET[ended.sequence_N]
            taken.rows.length_N[ended.sample_N] = length
            taken.truncated_N[ended.sample_N] = ended.finish == TRUNCATED
            said = decoded(self.loaded.tokenizer, ended.token_ET[:, : ended.said].tolist())
            for sample, sequence in zip(ended.sample_N.tolist(), ended.sequence_N.tolist(), strict=True):
                texts[sample] = said[sequence]
        if not np.isfinite(taken.entropy_NT).all():
            raise OffleashError("The chances that the model gives are NaN: the training went astray.")
        return replace(taken, texts=tuple(texts))

    def _within(self, prompts: Sequence[list[int]], decoding: Decoding) -> Decoding:
        """The decoding, with no more tokens than the model can read behind the longest prompt."""
        context, longest = self.loaded.context, max(map(len, prompts))
        if context is None or longest + decoding.max_tokens <= context:
            return decoding
        if longest >= context:
            raise OffleashError(
                f"A prompt has {longest} tokens, and the model reads {context}: leave out such problems."
            )
        return replace(decoding, max_tokens=context - longest)

    def sound(self, prompt: list[int]) -> bool:
        """Whether the model still gives numbers: all weights, and what comes after a prompt."""
        self.loaded.model.set_attn_implementation(NAME)
        ((_, logits),) = self.network.read([prompt])
        finite = all(bool(one.isfinite().all()) for one in self.loaded.model.parameters())
        return finite and bool(logits.isfinite().all())

    def logprobs(self, rows: Rows, temperature: float) -> Tensor:
        """Log-probabilities (N, T) of tokens, with their gradient where it is enabled."""
        self.loaded.model.set_attn_implementation(self.plain)
        if self.trees is None:
            self.trees = trees_agree(self.loaded.model, rows.part(np.arange(min(CHECKED, len(rows.length_N)))))
        return (by_trees if self.trees else by_rows)(self.loaded.model, rows, temperature)


def open_policy(name: str) -> Policy:
    """A model by its name or folder, ready to be trained."""
    model = model_of(name if ":" in name.split("/")[0] else f"hf:{name}")
    if model.sampler != "hf":
        raise OffleashError(f"Only models of transformers can be trained here: hf:PATH; found {name}.")
    settings = settings_of(model)
    if settings["dtype"] == "auto":
        settings["dtype"] = "float32"  # in half precision small steps of the optimizer round to nothing
    found = loaded(model, settings)
    if not found.ends:
        raise OffleashError(f"{name} has no token that ends a sample (eos_token): its samples would never stop.")
    plain = str(found.model.config._attn_implementation)
    try:
        shared = network(found.model)
    except UnsupportedError as error:
        raise OffleashError(
            f"{name} cannot be drawn from by the fast engine ({error}), which this trainer needs; train it with TRL."
        ) from None
    limits = Limits(memory=int(float(settings["memory"]) * 2**30), rows=int(float(settings["rows"])))
    return Policy(found, shared, Asking(found.tokenizer, None, model.raw), limits, plain)


def check_round_trip(policy: Policy, texts: Sequence[str]) -> None:
    """Refuse a tokenizer that does not give back what it read: rewards would be for other texts than were learned."""
    tokenizer = policy.loaded.tokenizer
    tokens: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
    backs = decoded(tokenizer, tokens)
    for text, read, back in zip(texts, tokens, backs, strict=True):
        if tokenizer.unk_token_id in read or not _same(text, back):
            name = policy.loaded.model.config.name_or_path
            raise OffleashError(
                f"The tokenizer of {name or 'the model'} does not give back what it reads: {text[:60]!r} comes back as "
                f"{back[:60]!r}. What is rewarded would not be what is learned; save the model with the tokenizer that "
                "it was trained with (beside a qwen2 configuration another one may be loaded)."
            )


def _same(text: str, back: str) -> bool:
    """Whether all letters came back, and every gap between words; more gaps than there were do no harm."""
    words, others = text.split(), back.split()
    gaps, kept = (set(accumulate(map(len, some))) for some in (words, others))
    return "".join(words) == "".join(others) and gaps <= kept


def frozen(policy: Policy) -> Policy:
    """A copy that stays as it is: the reference, or the base."""
    model = deepcopy(policy.loaded.model)
    model.requires_grad_(False)
    model.set_attn_implementation(policy.plain)  # with the engine's own, the engine could not be held against the model
    return replace(policy, loaded=replace(policy.loaded, model=model), network=network(model))
