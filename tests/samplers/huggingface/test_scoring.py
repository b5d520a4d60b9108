"""Scoring agrees with a plain forward pass, however the texts are batched, cut and ordered."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from offleash.data.scores import ScoredSample, Trace
from offleash.samplers.sampler import Request, SamplingParams
from tests.samplers.huggingface.tiny import FAMILIES, tiny_model
from tests.samplers.huggingface.tiny_scores import (
    SPELLED_END,
    THINK,
    as_array,
    bounded,
    plainly,
    scorer_of,
    some_traces,
    spelling_model,
)

PLAIN = SamplingParams()
CUT = SamplingParams(temperature=0.7, top_p=0.9)
TRACES = some_traces(16)
CLOSE = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt2", "bloom"])
@pytest.mark.parametrize("decoding", [PLAIN, CUT], ids=["plain", "top-p"])
def test_sums_are_those_of_a_plain_forward_pass(family: str, decoding: SamplingParams, tmp_path: Path) -> None:
    scorer = scorer_of(tiny_model(tmp_path / family, family))
    assert (scorer.sampler.network is None) == (family == "bloom")
    some = TRACES[:8]
    actual, expected = scorer.score(some, decoding), [plainly(scorer, trace, decoding) for trace in some]
    assert [sums.tokens for sums in actual] == [tokens for tokens, _ in expected]
    np.testing.assert_allclose(as_array(actual), np.array([sums for _, sums in expected]), rtol=0, atol=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_sums_of_every_family_are_those_of_a_plain_forward_pass(family: str, tmp_path: Path) -> None:
    scorer = scorer_of(tiny_model(tmp_path / family, family))
    some = some_traces(12, seed=1)
    expected = [plainly(scorer, trace, CUT)[1] for trace in some]
    np.testing.assert_allclose(as_array(scorer.score(some, CUT)), np.array(expected), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("engine", ["auto", "generate"])
@pytest.mark.parametrize("limits", [{"cells": 7}, {"cells": 77}, {"rows": 1}, {"rows": 5}, {"memory": 1}])
def test_sums_do_not_depend_on_how_texts_are_cut_and_batched(model: Path, engine: str, limits: dict[str, int]) -> None:
    scorer = scorer_of(model, engine=engine)
    whole = as_array(scorer.score(TRACES, CUT))
    np.testing.assert_allclose(as_array(bounded(scorer, **limits).score(TRACES, CUT)), whole, rtol=0, atol=CLOSE)


def test_sums_do_not_depend_on_the_order_and_the_company_of_a_text(model: Path) -> None:
    scorer = scorer_of(model)
    whole = as_array(scorer.score(TRACES, CUT))
    order = Random(3).sample(range(len(TRACES)), len(TRACES))
    again = as_array(scorer.score([TRACES[place] for place in order], CUT))
    np.testing.assert_allclose(again, whole[order], rtol=0, atol=CLOSE)
    alone = np.concatenate([as_array(scorer.score([trace], CUT)) for trace in TRACES])
    np.testing.assert_allclose(alone, whole, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("engine", ["auto", "generate"])
def test_logits_of_a_pass_stay_within_their_bound(model: Path, engine: str) -> None:
    scorer = bounded(scorer_of(model, engine=engine), cells=7 * 20)
    head = scorer.sampler.loaded.model.get_output_embeddings()
    sizes: list[int] = []
    hook = head.register_forward_hook(lambda _, __, out: sizes.append(out.numel()))
    scorer.score(TRACES, PLAIN)
    hook.remove()
    assert 7 < max(sizes) <= 7 * 20


def test_keys_and_values_of_rows_stay_within_their_bound(model: Path) -> None:
    bytes_per_token, memory = 2 * 2 * 2 * 8 * 4, 400_000  # layers, keys and values, heads, width, bytes
    scorer = bounded(scorer_of(model), memory=memory)
    rows: list[int] = []
    for name, part in scorer.sampler.loaded.model.named_modules():
        if name.endswith("0.self_attn.k_proj"):
            part.register_forward_hook(lambda _, __, out: rows.append(len(out)))
    texts = {" ".join(Random(seed).choices("abcd", k=24)) for seed in range(64)}
    scorer.score([Trace("a b", text) for text in sorted(texts)], PLAIN)
    assert max(rows) > 1
    assert max(rows) * 24 * bytes_per_token <= memory


def test_texts_that_are_alike_are_read_once(model: Path) -> None:
    scorer = scorer_of(model)
    assert scorer.sampler.network is not None
    once = [Trace("a b", "c d a")]
    scorer.score(once, PLAIN)
    before = scorer.sampler.network.forwarded
    scorer.score(once, PLAIN)
    cost = scorer.sampler.network.forwarded - before
    (first, *others) = scorer.score(once * 100, PLAIN)
    assert scorer.sampler.network.forwarded == before + 2 * cost
    assert others == [first] * 99


def test_scores_of_samples_are_the_sums_that_came_with_the_draw(model: Path) -> None:
    scorer, decoding = scorer_of(model), SamplingParams(temperature=0.8, top_p=0.95, max_tokens=12)
    (drawn,) = scorer.sampler.sample([Request("p", "a b c", 0, 200, seed=5)], decoding)
    result = scorer.score([Trace("a b c", sample.text, sample.finish == "stop") for sample in drawn.samples], decoding)
    same = [(item, sums) for item, sums in zip(drawn.samples, result, strict=True) if item.tokens == sums.tokens]
    assert len(same) > 50
    for item, sums in same:  # the others drew a special token, which no text shows
        assert sums.logprob_raw == pytest.approx(item.logprob_raw, abs=CLOSE)
        assert sums.logprob_sampled == pytest.approx(item.logprob_sampled, abs=CLOSE)
        assert sums.entropy_raw == pytest.approx(item.entropy_raw, abs=CLOSE)
        assert sums.entropy_sampled == pytest.approx(item.entropy_sampled, abs=CLOSE)


def test_a_token_that_the_decoding_leaves_out_makes_the_sum_minus_infinity_and_nothing_else(model: Path) -> None:
    scorer, greedy = scorer_of(model), SamplingParams(temperature=0)
    result = scorer.score(TRACES, greedy)
    assert {sums.logprob_sampled for sums in result} <= {0.0, -np.inf}
    assert any(sums.logprob_sampled == -np.inf for sums in result)
    assert not np.isnan(as_array(result)).any()
    assert all(sums.entropy_sampled == 0 and np.isfinite(sums.logprob_raw or np.nan) for sums in result)


def test_the_probabilities_of_all_texts_of_one_token_add_up_to_one(model: Path) -> None:
    scorer = scorer_of(model)
    result = scorer.score([Trace("a b", word) for word in ("a", "b", "c", "d", "<end>", "<pad>", "<unk>")], PLAIN)
    assert sum(np.exp(sums.logprob_raw or 0) for sums in result) == pytest.approx(1)


def test_an_empty_text_has_no_tokens_and_with_its_end_it_has_one(model: Path) -> None:
    silent, ended = scorer_of(model).score([Trace("a", ""), Trace("a", "", ended=True)], PLAIN)
    assert silent == ScoredSample(0, 0.0, 0.0, 0.0, 0.0, windows=1)
    assert silent.perplexity is None
    assert ended.tokens == 1
    assert ended.perplexity == pytest.approx(np.exp(-(ended.logprob_raw or 0)))


@pytest.mark.parametrize("engine", ["auto", "generate"])
def test_a_text_longer_than_the_context_is_read_in_windows_after_half_a_context(model: Path, engine: str) -> None:
    scorer = scorer_of(model, engine=engine)
    random = Random(7)
    text = " ".join(random.choices("abcd", k=150))
    fits, long = scorer.score_traces([Trace("a", "b " * 64), Trace("a b c", text, ended=True)], CUT)
    assert (fits.sums.windows, fits.sums.tokens, len(fits.entropy_T)) == (1, 64, 64)
    words, expected = text.split(), np.zeros(4)
    # the prompt and 61 tokens fill the context and foretell a 62nd; then 32 tokens stand before each further 33
    spans = [("a b c", 0, 62), *((" ".join(words[start - 32 : start]), start, start + 33) for start in (62, 95, 128))]
    for prompt, start, stop in spans:
        trace = Trace(prompt, " ".join(words[start:stop]), ended=stop > 150)
        expected += plainly(scorer, trace, CUT)[1]
    assert (long.sums.windows, long.sums.tokens, long.sums.reason) == (4, 151, "")
    np.testing.assert_allclose(as_array([long.sums])[0], expected, rtol=0, atol=2 * CLOSE)
    assert long.entropy_T.sum() == pytest.approx(expected[1], abs=2 * CLOSE)


def test_a_prompt_longer_than_the_context_has_no_sums_and_says_why(model: Path) -> None:
    scorer = scorer_of(model)
    fits, too_long = scorer.score([Trace("a " * 64, "b"), Trace("a " * 65, "b")], PLAIN)
    assert fits.logprob_raw is not None
    assert too_long.logprob_raw is too_long.entropy_raw is too_long.windows is None
    assert "prompt is longer than the model's context of 64 tokens" in too_long.reason


def test_every_token_has_the_entropy_of_a_plain_forward_pass(model: Path) -> None:
    scorer = scorer_of(model)
    for trace, item in zip(TRACES, scorer.score_traces(TRACES, CUT), strict=True):
        steps = [plainly(scorer, Trace(trace.prompt, text), CUT)[1][1] for text in _beginnings(trace.text)]
        actual = item.entropy_T[: len(steps)]
        np.testing.assert_allclose(np.cumsum(actual), steps, rtol=0, atol=CLOSE)
        assert item.entropy_T.sum() == pytest.approx(item.sums.entropy_raw, abs=CLOSE)


def _beginnings(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[: count + 1]) for count in range(min(len(words), 3))]


def test_padding_does_not_reach_beyond_a_table_of_positions(tmp_path: Path) -> None:
    scorer = scorer_of(tiny_model(tmp_path, "gpt2"))
    traces = [Trace("a " * 60, "b c"), Trace("a", "b " * 60)]
    expected = [plainly(scorer, trace, PLAIN)[1] for trace in traces]
    np.testing.assert_allclose(as_array(scorer.score(traces, PLAIN)), np.array(expected), rtol=0, atol=CLOSE)


def test_of_several_ends_a_text_has_the_chance_of_any(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": [4, 0]}))
    scorer = scorer_of(folder)
    assert scorer.sampler.loaded.ends == (4, 0)
    text, ended, by_end, by_a = scorer.score(
        [Trace("b", "c d"), Trace("b", "c d", ended=True), Trace("b", "c d <end>"), Trace("b", "c d a")], PLAIN
    )
    either = np.logaddexp(by_end.logprob_raw or -np.inf, by_a.logprob_raw or -np.inf)
    assert ended.logprob_raw == pytest.approx(either, abs=CLOSE)
    assert ended.tokens == (text.tokens or 0) + 1


def test_a_text_cannot_spell_an_end_and_marks_of_reasoning_stay_one_token(tmp_path: Path) -> None:
    scorer = scorer_of(spelling_model(tmp_path))
    spelled, thought = scorer.score([Trace("hi", f"a{SPELLED_END}b"), Trace("hi", THINK)], PLAIN)
    assert spelled.tokens == len(f"a{SPELLED_END}b")
    assert thought.tokens == 1
    prompt, _ = scorer.sampler.prompt_encoder.encode(Request("p", SPELLED_END, 0, 1, 0))
    assert prompt == list(scorer.sampler.loaded.ends)  # prompts are still read with their special tokens


def test_lone_surrogates_and_odd_letters_are_scored(tmp_path: Path) -> None:
    scorer = scorer_of(spelling_model(tmp_path))
    result = scorer.score([Trace("\ud800?", "a\udfff"), Trace("x", "\x00\x1b\u202e")], PLAIN)
    assert [sums.tokens for sums in result] == [2, 5]
    assert np.isfinite(as_array(result)).all()


def test_the_chat_template_is_part_of_the_prompt_unless_it_is_raw(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "chat"
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "chat_template.jinja").write_text("a b {{ messages[0]['content'] }} d", encoding="utf-8")
    trace = Trace("c", "a a", ended=True)
    chat, raw = scorer_of(folder), scorer_of(folder, raw=True)
    (templated,), (bare,) = chat.score([trace], PLAIN), raw.score([trace], PLAIN)
    (spelled,) = raw.score([Trace("a b c d", "a a", ended=True)], PLAIN)
    assert templated.logprob_raw == pytest.approx(spelled.logprob_raw, abs=CLOSE)
    assert templated.logprob_raw != pytest.approx(bare.logprob_raw, abs=0.01)


def test_a_model_that_gives_no_numbers_is_told_not_stored(model: Path) -> None:
    scorer = scorer_of(model)
    with torch.no_grad():
        scorer.sampler.loaded.model.get_output_embeddings().weight.fill_(torch.nan)
    (actual,) = scorer.score([Trace("a", "b c")], PLAIN)
    assert actual.logprob_raw is None
    assert "NaN" in actual.reason
