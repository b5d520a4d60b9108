"""Sampling: tokens per CPU-second of the hf: engine against `generate` of transformers, in one run.

    python benchmarks/sampling.py [--small]

One thread, the same model, prompts and decoding (temperature 1). `generate` runs in its best batch shape. The models of
156k parameters are made by benchmarks/countdown.py; SmolLM2-135M-Instruct is used where `make test-real` has put it.
Tokens are those of the samples, their ends included; padding of `generate` is not counted.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))  # for the models that benchmarks share

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks import countdown
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, SamplingParams

SHAPES = (256, 512, 1024, 2048)
SMOLLM2 = countdown.HOME / "smollm2"
QUESTIONS = (
    "What is 17 + 26? Answer with one number.",
    "Name a prime number between 20 and 40 and say why it is prime.",
)


def rate(work: Callable[[], int], times: int = 3, warm: bool = True) -> float:
    """Tokens per CPU-second: the best of several runs, since others use the machine too."""
    if warm:
        work()
    best = 0.0
    for _ in range(times):
        start = time.process_time()
        tokens = work()
        best = max(best, tokens / (time.process_time() - start))
    return best


def by_generate(model: Any, tokenizer: Any, prompts: list[list[int]], k: int, shape: int, length: int) -> int:
    """k samples of every prompt, `shape` at a time; their tokens."""
    tokens = 0
    for prompt in prompts:
        ids = torch.tensor([prompt])
        for _ in range(-(-k // shape)):
            with torch.inference_mode():
                out = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    temperature=1.0,
                    top_k=0,
                    top_p=1.0,
                    num_return_sequences=min(shape, k),
                    max_new_tokens=length,
                    pad_token_id=tokenizer.pad_token_id,
                )
            ended = (out[:, len(prompt) :] == model.generation_config.eos_token_id).int().cumsum(1)
            tokens += int(((ended - (out[:, len(prompt) :] == model.generation_config.eos_token_id).int()) == 0).sum())
    return tokens


def by_engine(sampler: HuggingFace, prompts: list[str], k: int, length: int, seed: int = 0) -> int:
    """The same by the engine, all prompts in one call; texts are made too."""
    requests = [
        Request(str(place), prompt, first, min(256, k - first), seed + place)
        for place, prompt in enumerate(prompts)
        for first in range(0, k, 256)
    ]
    chunks = sampler.sample(requests, SamplingParams(max_tokens=length))
    return sum(sample.tokens or 0 for chunk in chunks for sample in chunk.samples)


def limit(model: Any, rows: int = 1024) -> float:
    """Tokens per CPU-second if a token cost the model's matrix products and nothing else."""
    weights = [weight.detach() for weight in model.parameters() if weight.dim() == 2]
    inputs = {weight.shape[1]: torch.randn(rows, weight.shape[1], dtype=weight.dtype) for weight in weights}

    def work() -> int:
        for _ in range(10):
            for weight in weights:
                torch.mm(inputs[weight.shape[1]], weight.T)
        return 10 * rows

    return rate(work)


def countdown_model(name: str, texts: list[str]) -> None:
    """The table of one model: how speed and the share of tokens that need the model change with k."""
    folder, length = countdown.made(name), countdown.LENGTH + 1
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompts = [tokenizer.encode(text) for text in texts]
    generate = partial(by_generate, model, tokenizer)
    shapes = {shape: rate(partial(generate, prompts[:2], shape, shape, length), 2) for shape in SHAPES}
    shape, best = max(shapes, key=lambda rows: shapes[rows]), max(shapes.values())
    print(f"\n{name}: generate " + ", ".join(f"{rows}: {speed:,.0f}" for rows, speed in shapes.items()), "tokens/s")
    print(f"{'k':>6} {'merged tokens/s':>16} {'times generate':>15} {'through the model':>18}")
    ratios = []
    for k in (64, 256, 1024, 4096, 8192, 16384):
        sampler = open_sampler(model_of(f"hf:{folder}"))
        total = by_engine(sampler, texts, k, length)
        share = sampler.forwarded / total
        speed = rate(partial(by_engine, sampler, texts, k, length), 2)
        best = max(best, rate(partial(generate, prompts[:1], shape, shape, length), 2))  # timed beside every line
        print(f"{k:>6} {speed:>16,.0f} {speed / best:>15.2f} {share:>18.1%}")
        if k in (1024, 8192):
            ratios.append(f"ratio {name} merged k={k} against generate: {speed / best:.2f}")
    apart = open_sampler(model_of(f"hf:{folder}", {"merge": "off"}))
    speed, dense = rate(partial(by_engine, apart, texts[:2], 1024, length)), limit(model)
    print(*ratios, sep="\n")
    print(f"ratio {name} merging off against generate: {speed / best:.2f}")
    print(f"ratio {name} merging off against the matrix products alone ({dense:,.0f} tokens/s): {speed / dense:.2f}")


def smollm2() -> None:
    """The same ratio for a real small model, where it is there."""
    if not (SMOLLM2 / "config.json").is_file():
        print("\nSmolLM2-135M is not here; `make test-real` puts it there.")
        return
    tokenizer, k, length = AutoTokenizer.from_pretrained(SMOLLM2), 64, 64
    model = AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32).eval()
    sampler = open_sampler(model_of(f"hf:{SMOLLM2}"))
    prompts = [tokenizer.encode(str(sampler.rendered_prompt(text)), add_special_tokens=False) for text in QUESTIONS]
    generate, engine = partial(by_generate, model, tokenizer, prompts), partial(by_engine, sampler, list(QUESTIONS))
    generate(4, 4, 4), engine(4, 4)
    peer, ours = rate(partial(generate, k, k, length), 2, warm=False), rate(partial(engine, k, length), 2, warm=False)
    print(f"\nSmolLM2-135M, {model.dtype}, k={k}, {length} tokens: generate {peer:,.0f}, engine {ours:,.0f} tokens/s")
    print(f"ratio SmolLM2-135M against generate: {ours / peer:.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    problems = countdown.prompts(2 if "--small" in sys.argv else 8)
    for name in ("base", "sharpened"):
        countdown_model(name, [countdown.prompt(*problem) for problem in problems])
    smollm2()
