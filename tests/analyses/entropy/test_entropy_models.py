"""Token entropy and perplexity of models: one known by hand, and the lab's base by three ways."""

from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import entropy as scipy_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from offleash.analyses.entropy.entropy import TOKEN, entropies
from offleash.comparing.question import Question
from offleash.data.run_folder import open_run
from offleash.data.scores import Trace
from offleash.data.tables import as_problems
from offleash.drawing.draw import DrawRequest, draw, draw_model
from offleash.lab.countdown import COUNTDOWN
from offleash.lab.pretrain import base_of
from offleash.loading.load import load
from offleash.options import Judging
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import SamplingParams
from offleash.scoring.score import score_folders
from offleash.scoring.shards import Selection
from offleash.verifying.verify import verify, verify_options
from tests.samplers.huggingface.tiny import tokenizer
from tests.samplers.huggingface.tiny_scores import plainly, scorer_of

P_AFTER = {"?": (0.5, 0.5), "a": (0.75, 0.25), "b": (0.1, 0.9)}  # chances of a and of b after each word

QUIET = verify_options(None, Judging(jobs=1, cache=False))


def two_token_model(folder: Path) -> Path:
    """A chain known by hand: a one-hot embedding of the last token, nothing in between, a head of log-chances."""

    words = ("?", "a", "b", "<end>", "<pad>", "<unk>")
    size = 8
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=size,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=64,
        rms_norm_eps=1e-12,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=words.index("<end>"),
        pad_token_id=words.index("<pad>"),
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            weights.fill_(1.0 if "norm" in name else 0.0)
        model.model.embed_tokens.weight.copy_(torch.eye(len(words), size))
        for word, chances in P_AFTER.items():
            column = torch.full((len(words),), -60.0)
            column[1:3] = torch.tensor(chances).log()
            model.lm_head.weight[:, words.index(word)] = column / sqrt(size)  # what the norm makes of a one-hot
    model.save_pretrained(folder)
    tokenizer(words).save_pretrained(folder)
    return folder


def by_hand(text: str) -> tuple[float, float]:
    """Log-probability and entropy of a text after '?', summed over its tokens."""
    words = ["?", *text.split()]
    pairs = list(pairwise(words))
    logprob = sum(log(P_AFTER[last]["ab".index(word)]) for last, word in pairs)
    return logprob, sum(float(scipy_entropy(P_AFTER[last])) for last, _ in pairs)


def test_entropy_and_perplexity_of_a_two_token_model_are_those_computed_by_hand(tmp_path: Path) -> None:

    folder = two_token_model(tmp_path / "model")
    texts = ["a", "b", "a a b", "b b b a a b a"]
    sums = scorer_of(folder).score([Trace("?", text) for text in texts], SamplingParams())
    for text, one in zip(texts, sums, strict=True):
        logprob, entropy = by_hand(text)
        assert (one.logprob_raw, one.entropy_raw) == pytest.approx((logprob, entropy), abs=1e-5)
        assert one.perplexity == pytest.approx(exp(-logprob / len(text.split())), rel=1e-6)
    assert sums[2].perplexity == pytest.approx((0.5 * 0.75 * 0.25) ** (-1 / 3), rel=1e-6)
    problems = as_problems(pl.DataFrame({"problem": ["x", "y"], "question": ["?", "?"], "gold": ["a", "b"]}))
    with closing(open_sampler(model_of(f"hf:{folder}"))) as sampler:
        draw(tmp_path / "run", problems, sampler, SamplingParams(max_tokens=6), DrawRequest("hf:two", 8, 0, 0))
    drawn = open_run(tmp_path / "run").samples
    assert drawn is not None
    for text, entropy, logprob in drawn.select("text", "entropy_raw", "logprob_raw").collect().iter_rows():
        assert (logprob, entropy) == pytest.approx(by_hand(text), abs=1e-5)


def test_token_entropy_from_draw_from_score_and_from_a_plain_forward_pass_agree(tmp_path: Path) -> None:

    model, folder = model_of(f"hf:{base_of('countdown')}"), tmp_path / "run"
    problems = COUNTDOWN.problems("test", 6, 0)
    draw_model(folder, problems, model, SamplingParams(max_tokens=18), 8, 0, 0, QUIET)

    verify(folder, QUIET)
    score_folders([str(folder)], model, SamplingParams(), None, None, selection=Selection(first=4))
    (loaded,) = load(str(folder))
    drawn = entropies([loaded], Question(replicates=200, at=4))
    samples = loaded.samples
    assert samples is not None
    unsaid = replace(loaded, samples=samples.with_columns(pl.lit(None, pl.Float64).alias("entropy_raw")))
    scored = entropies([unsaid], Question(replicates=200, at=4))
    assert (drawn.tokens[0].source, scored.tokens[0].source) == ("draw", "score")
    np.testing.assert_allclose(drawn.measures[TOKEN].value_PR, scored.measures[TOKEN].value_PR, atol=1e-4)
    scorer, asked = scorer_of(base_of("countdown")), dict(problems.select("problem", "question").iter_rows())
    plain: dict[str, list[float]] = {}
    rows = samples.filter(pl.col("index") < 4).select("problem", "text", "finish").collect()
    for problem, text, finish in rows.iter_rows():
        tokens, sums = plainly(scorer, Trace(asked[problem], text, finish == "stop"), SamplingParams())
        plain.setdefault(problem, []).append(sums[1] / tokens)
    expected = [np.mean(plain[problem]) for problem in drawn.problem_P]
    np.testing.assert_allclose(drawn.measures[TOKEN].value_PR[:, 0], expected, atol=1e-4)
    whole = next(place for place in drawn.positions.parts if place.name == "all tokens")
    pooled = samples.filter(pl.col("index") < 4).select(pl.col("entropy_raw").sum() / pl.col("tokens").sum()).collect()
    assert whole.value_R[0] == pytest.approx(pooled.item(), abs=1e-4)
