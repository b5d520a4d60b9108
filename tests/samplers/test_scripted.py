"""scripted: a written-down distribution is drawn exactly, and a sample depends on its run, problem and index alone."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from offleash.errors import OffleashError
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, Sample, SamplingParams
from offleash.samplers.scripted import Scripted, open_sampler, truncate
from offleash.samplers.seeds import sample_seeds

CHANCES = {"one": 0.5, "two words": 0.3, "three long words": 0.15, "never seen": 0.0, "rare": 0.05}


def sampler(folder: Path, document: object = None, **settings: str) -> Scripted:
    file = folder / "script.json"
    file.write_text(json.dumps(document if document is not None else {"problems": {"*": CHANCES}}))
    return open_sampler(model_of(f"scripted:{file}", settings))


def drawn(sampler: Scripted, first: int, size: int, decoding: SamplingParams, seed: int = 7) -> list[Sample]:
    (answer,) = sampler.sample([Request("p", "What?", first, size, seed)], decoding)
    assert not answer.error
    return list(answer.samples)


@pytest.mark.parametrize(
    "decoding",
    [
        SamplingParams(),
        SamplingParams(temperature=0.6),
        SamplingParams(temperature=2, top_k=3),
        SamplingParams(top_p=0.9),
        SamplingParams(min_p=0.2),
    ],
)
def test_texts_come_as_often_as_the_decoding_says(tmp_path: Path, decoding: SamplingParams) -> None:
    size = 20_000
    samples = drawn(sampler(tmp_path), 0, size, decoding)
    counts = Counter(sample.text for sample in samples)
    chance_T = truncate(np.array(list(CHANCES.values())), decoding)
    expected = {text: chance * size for text, chance in zip(CHANCES, chance_T, strict=True) if chance}
    assert counts.keys() == expected.keys()
    observed = [counts[text] for text in expected]
    assert stats.chisquare(observed, list(expected.values())).pvalue > 1e-4
    by_text = dict(zip(CHANCES, chance_T, strict=True))
    for sample in samples[:50]:
        assert sample.logprob_raw == pytest.approx(np.log(CHANCES[sample.text]))
        assert sample.logprob_sampled == pytest.approx(np.log(by_text[sample.text]))
        assert sample.entropy_raw == pytest.approx(stats.entropy(list(CHANCES.values())))
        assert sample.entropy_sampled == pytest.approx(stats.entropy(chance_T))


def test_decodings_of_a_small_distribution_are_those_computed_by_hand() -> None:
    chance_T = np.array([0.5, 0.3, 0.2])
    assert truncate(chance_T, SamplingParams(temperature=0.5)) == pytest.approx(np.array([25, 9, 4]) / 38)
    assert truncate(chance_T, SamplingParams(top_k=2)) == pytest.approx([5 / 8, 3 / 8, 0])
    assert truncate(chance_T, SamplingParams(top_p=0.5)) == pytest.approx([1, 0, 0])
    assert truncate(chance_T, SamplingParams(top_p=0.51)) == pytest.approx([5 / 8, 3 / 8, 0])
    assert truncate(chance_T, SamplingParams(top_k=2, top_p=0.6)) == pytest.approx([1, 0, 0])  # of what top-k left
    assert truncate(chance_T, SamplingParams(min_p=0.5)) == pytest.approx([5 / 8, 3 / 8, 0])
    assert truncate(chance_T, SamplingParams(temperature=0)) == pytest.approx([1, 0, 0])


def test_a_sample_is_the_same_in_every_chunk(tmp_path: Path) -> None:
    result = sampler(tmp_path)
    whole = drawn(result, 0, 100, SamplingParams())
    assert [*drawn(result, 60, 40, SamplingParams()), *drawn(result, 0, 60, SamplingParams())] == [
        *whole[60:],
        *whole[:60],
    ]
    assert [sample.seed for sample in whole] == sample_seeds(7, 0, 100).tolist()
    assert [sample.text for sample in drawn(result, 0, 100, SamplingParams(), seed=8)] != [
        sample.text for sample in whole
    ]


def test_a_text_ends_at_a_stop_text_and_at_the_token_limit(tmp_path: Path) -> None:
    result = sampler(tmp_path, {"problems": {"p": {"a b c d": 1}}, "tokens": {"a b c d": 8}})
    (whole,) = drawn(result, 0, 1, SamplingParams())
    assert (whole.text, whole.tokens, whole.finish) == ("a b c d", 8, "stop")
    (cut,) = drawn(result, 0, 1, SamplingParams(max_tokens=4))
    assert (cut.text, cut.tokens, cut.finish) == ("a b", 4, "length")
    (stopped,) = drawn(result, 0, 1, SamplingParams(stop=("d", " c")))
    assert (stopped.text, stopped.finish) == ("a b", "stop")


def test_bad_behaviour_is_as_it_is_asked_for(tmp_path: Path) -> None:
    assert len({sample.text for sample in drawn(sampler(tmp_path, copies="yes"), 0, 50, SamplingParams())}) == 1
    left = sampler(tmp_path, fail="0.25", width="3", appetite="9")
    assert (left.concurrency, left.batch_size) == (3, 9)
    requests = [Request("p", "", first, 1, 7) for first in range(2000)]
    failed = [answer.request.first for answer in left.sample(requests, SamplingParams()) if answer.error]
    assert 400 < len(failed) < 600
    again = [answer.request.first for answer in left.sample(requests, SamplingParams()) if answer.error]
    assert again == failed


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "is not a script"),
        ({"problems": {}}, "is not a script"),
        ({"problems": {"a": {"x": 0.5, "y": 0.4}}}, "sum to 0.9"),
        ({"problems": {"a": {"x": 1.5, "y": -0.5}}}, "1.5 is not a probability"),
        ({"problems": {"a": {"x": True}}}, "True is not a probability"),
        ({"problems": {"a": []}}, "'a' has no texts"),
        ({"problems": {"a": {"x": 1}}, "token": {}}, "Did you mean 'tokens'"),
        ({"problems": {"a": {"x": 1}}, "tokens": {"x": 0}}, '{"x": 0}'),
        ({"problems": {"a": {"x": 1}}, "template": "no place"}, "'no place'"),
    ],
)
def test_a_bad_script_is_refused_with_what_was_found(tmp_path: Path, document: object, words: str) -> None:
    with pytest.raises(OffleashError, match=words):
        sampler(tmp_path, document)


def test_what_is_no_script_or_no_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"none\.json cannot be read"):
        open_sampler(model_of(f"scripted:{tmp_path / 'none.json'}"))
    (tmp_path / "bad.json").write_text('{"problems": {"a": {"x": 0.5, "x": 0.5}}}')
    with pytest.raises(OffleashError, match="'x' twice"):
        open_sampler(model_of(f"scripted:{tmp_path / 'bad.json'}"))
    for name, value, words in (("delai", "1", "delay"), ("delay", "-1", "delay=-1"), ("copies", "1", "copies=1")):
        with pytest.raises(OffleashError, match=words):
            sampler(tmp_path, **{name: value})
    result = sampler(tmp_path, {"problems": {"a": {"x": 1}}})
    with pytest.raises(OffleashError, match="has no entry for problem 'p'"):
        drawn(result, 0, 1, SamplingParams())
