"""What merging, stopping early and both save, in tokens that go through the model.

    python benchmarks/rounds.py [--small]

The two models of benchmarks/countdown.py on problems of spread difficulty, k = 2,048 (512), stopped at the 5th correct
sample in rounds that grow by a quarter. Rounds keep the prefix tree of their problem: a later round pays only for
prefixes that no earlier one went through.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))  # for the models that benchmarks share

import torch

from benchmarks import countdown
from offleash.drawing.schedule import Chunks, chunks_for
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, SamplingParams

UNTIL = 5
DECODING = SamplingParams(max_tokens=countdown.LENGTH + 1)


def drawn(
    sampler: HuggingFace, problem: tuple[list[int], int], place: int, k: int, chunks: Chunks, until: int, keep: bool
) -> tuple[int, int]:
    """Samples and tokens of one problem, drawn in rounds until enough are correct."""
    samples = tokens = hits = 0
    while samples < k and (not until or hits < until):
        end = min(chunks.round_end(samples), k) if until else k
        requests = [
            Request(str(place), countdown.prompt(*problem), first, size, place, more_expected=keep)
            for first, size in chunks.between(samples, end)
        ]
        for result in sampler.sample(requests, DECODING):
            tokens += sum(sample.tokens or 0 for sample in result.samples)
            hits += sum(countdown.is_correct(*problem, sample.text) for sample in result.samples)
        samples = end
    sampler.forget(str(place))
    return samples, tokens


def table(name: str, k: int, problems: int) -> None:
    prompts, folder = countdown.prompts(problems, seed=3), countdown.made(name)
    cases = {
        "all samples, separately": ({"merge": "off"}, 0, False),
        "merging": ({}, 0, False),
        "--until 5, separately": ({"merge": "off"}, UNTIL, False),
        "--until 5, merged within a round": ({}, UNTIL, False),
        "--until 5, the tree kept": ({}, UNTIL, True),
    }
    print(f"\n{name}: {problems} problems, k = {k:,}")
    print(f"{'':<34} {'samples':>10} {'their tokens':>13} {'through the model':>18} {'share':>7}")
    first, through = 0, {}
    for way, (settings, until, keep) in cases.items():
        sampler = open_sampler(model_of(f"hf:{folder}", settings))
        chunks = chunks_for(until)
        counts = [drawn(sampler, prompt, place, k, chunks, until, keep) for place, prompt in enumerate(prompts)]
        samples, tokens = (sum(column) for column in zip(*counts, strict=True))
        through[way] = sampler.forwarded
        first = first or sampler.forwarded
        print(f"{way:<34} {samples:>10,} {tokens:>13,} {sampler.forwarded:>18,} {sampler.forwarded / first:>7.1%}")
    print(f"ratio {name} forward tokens, merging: {first / through['merging']:.2f}")
    print(f"ratio {name} forward tokens, --until 5: {first / through['--until 5, separately']:.2f}")
    print(f"ratio {name} forward tokens, both: {first / through['--until 5, the tree kept']:.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    small = "--small" in sys.argv
    for each in ("base", "sharpened"):
        table(each, 512 if small else 2048, 12 if small else 48)
