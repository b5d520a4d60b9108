"""Traces and the sums that a plain forward pass gives them, one text at a time: what scoring must agree with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from offleash.data.scores import ScoredSample, Trace
from offleash.samplers.huggingface.prefix_sampling import distribution
from offleash.samplers.huggingface.sampler import HuggingFace
from offleash.samplers.huggingface.sampler import open_sampler as open_huggingface
from offleash.samplers.huggingface.scoring import Scorer
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import SamplingParams

LETTERS = "abcd"
SPELLED_END, THINK = "<|im_end|>", "<think>"


def scorer_of(folder: Path, raw: bool = False, **settings: str) -> Scorer:
    return Scorer.for_sampler(open_huggingface(model_of(f"hf:{folder}", settings, raw)))


def bounded(scorer: Scorer, **limits: int) -> Scorer:
    """The same model with other bounds."""
    sampler = scorer.sampler
    other = replace(sampler.limits, **limits)  # type: ignore[arg-type]
    return Scorer(
        HuggingFace(
            sampler.about, sampler.loaded, sampler.network, sampler.prompt_encoder, other, sampler.fallback_reason
        )
    )


def some_traces(count: int, seed: int = 0, longest: int = 24) -> list[Trace]:
    """Texts of all lengths after prompts of all lengths; half of them ended by themselves."""
    random = Random(seed)
    prompts = [" ".join(random.choices(LETTERS, k=length)) for length in (1, 2, 7, 7, 12, 30)]
    lengths = [1, 2, longest, *(random.randint(1, longest) for _ in range(count - 3))]
    return [
        Trace(random.choice(prompts), " ".join(random.choices(LETTERS, k=length)), random.random() < 0.5)
        for length in lengths
    ]


def plainly(scorer: Scorer, trace: Trace, decoding: SamplingParams) -> tuple[int, NDArray[np.float64]]:
    """Tokens and sums of a trace by one forward pass of transformers over prompt and text."""
    loaded = scorer.sampler.loaded
    fresh = type(loaded.model).from_pretrained(scorer.about.model, dtype=torch.float32).eval()  # its own attention
    prompt = loaded.tokenizer.encode(scorer.rendered_prompt(trace.prompt) or "", add_special_tokens=False)
    text = loaded.tokenizer.encode(trace.text, add_special_tokens=False, split_special_tokens=True)
    text += list(loaded.ends[:1]) if trace.ended else []
    with torch.inference_mode():
        logits = fresh(input_ids=torch.tensor([[*prompt, *text]])).logits[0, len(prompt) - 1 : -1]
    result = distribution(logits, decoding)
    row, token = torch.arange(len(text)), torch.tensor(text)
    sums = [result.raw_RV[row, token], result.entropy_raw_R, result.sampled_RV[row, token], result.entropy_sampled_R]
    return len(text), np.array([float(item.double().sum()) for item in sums])


def as_array(sums: Sequence[ScoredSample]) -> NDArray[np.float64]:
    return np.array(
        [[item.logprob_raw, item.entropy_raw, item.logprob_sampled, item.entropy_sampled] for item in sums], np.float64
    )


def spelling_model(folder: Path) -> Path:
    """A model whose tokens are single bytes, an end that is special, and a mark of reasoning that is not."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    bare.add_special_tokens([AddedToken(SPELLED_END, special=True)])
    bare.add_tokens([AddedToken(THINK, special=False)])
    PreTrainedTokenizerFast(tokenizer_object=bare, eos_token=SPELLED_END, pad_token=SPELLED_END).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(alphabet) + 2,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        eos_token_id=len(alphabet),
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        LlamaForCausalLM(config).eval().save_pretrained(folder)
    return folder
