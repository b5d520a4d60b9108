"""How many tokens each sample of an endpoint has: told in whichever way the server has, and never guessed."""

from dataclasses import replace

import pytest

from offleash.errors import OffleashError
from offleash.samplers.endpoint import sampler
from offleash.samplers.sampler import SamplingParams
from tests.samplers.endpoint.chunks import PLAIN, drawn, opened, wanted
from tests.samplers.endpoint.server import World, good, serving

PAPER = replace(PLAIN, temperature=0.6, top_p=0.95)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(sampler, "FIRST_PAUSE", 0.01)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("decoding", [PLAIN, PAPER])
@pytest.mark.parametrize(
    "world",
    [
        World(),
        World(gives_logprobs=False),
        World(gives_ids=False),
        World(gives_ids=False, usage=False),
        World(refuses=("return_token_ids",)),
        World(refuses=("logprobs",)),
        World(most=1),
        World(gives_logprobs=False, gives_ids=False, ignores_n=True),
    ],
)
def test_every_sample_has_its_tokens_where_a_server_gives_them_in_any_form(
    world: World, decoding: SamplingParams, raw: bool
) -> None:
    with serving(world) as server:
        sampler = opened(server, raw=raw)
        for first in (0, 4, 8):
            assert [sample.tokens for sample in drawn(sampler, wanted(first=first), decoding).samples] == [7] * 4
    assert not {"logprobs", "return_token_ids"} <= server.bodies[-1].keys()  # one is enough, once it is known which


def test_tokens_are_counted_by_ids_where_log_probabilities_leave_out_the_end() -> None:
    choices = [_choice(["a"], [1, 2]), _choice(["b", "c"], [1, 2, 3])]
    document = {"choices": choices, "usage": {"completion_tokens": 5}}
    with serving(lambda call: good(document)) as server:
        for decoding in (PLAIN, PAPER):
            samples = drawn(opened(server), wanted(2), decoding).samples
            assert [(sample.tokens, sample.logprob_raw) for sample in samples] == [(2, None), (3, None)]


@pytest.mark.parametrize("value", [None, "x", float("nan")])
def test_tokens_without_a_value_are_counted_but_not_summed(value: object) -> None:
    steps = [{"token": token, "logprob": value} for token in ("a", "<end>")]
    choice = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": {"content": steps}}
    with serving(lambda call: good({"choices": [choice] * 2})) as server:
        samples = drawn(opened(server), wanted(2)).samples
    assert [(sample.tokens, sample.logprob_raw) for sample in samples] == [(2, None)] * 2


def test_tokens_that_no_server_gives_are_unknown_and_never_divided() -> None:
    with serving(World(gives_logprobs=False, gives_ids=False)) as server:  # usage alone, of all samples
        sampler = opened(server)
        for first in (0, 4):
            assert {sample.tokens for sample in drawn(sampler, wanted(first=first)).samples} == {None}
        assert drawn(sampler, wanted(1, first=8)).samples[0].tokens == 7
    assert not {"logprobs", "return_token_ids"} & server.bodies[-1].keys()
    empty = {"message": {"content": "a text"}, "finish_reason": "stop", "logprobs": {"content": []}}
    with serving(lambda call: good({"choices": [empty] * 2})) as server:
        assert {sample.tokens for sample in drawn(opened(server), wanted(2)).samples} == {None}


def test_single_samples_are_counted_as_well_where_a_server_gives_no_usage() -> None:
    with serving(World(usage=False)) as server:
        sampler = opened(server, n=1, concurrency=1)
        assert [sample.tokens for sample in drawn(sampler, wanted(4), PAPER).samples] == [None, 7, 7, 7]


def test_min_p_after_top_p_is_refused_since_servers_differ_in_their_order() -> None:
    with serving(World()) as server:
        sampler = opened(server)
        with pytest.raises(OffleashError, match=r"min_p=0\.1 after top_p=0\.95.*Set one of the two"):
            drawn(sampler, wanted(), replace(PAPER, min_p=0.1))
        assert not server.calls
        assert drawn(sampler, wanted(), replace(PLAIN, min_p=0.1)).samples
    assert server.bodies[0]["min_p"] == 0.1


def _choice(words: list[str], ids: list[int]) -> dict[str, object]:
    steps = [{"token": word, "logprob": -1.0} for word in words]
    text = "".join(words)
    return {
        "message": {"content": text},
        "finish_reason": "stop",
        "logprobs": {"content": steps},
        "token_ids": ids,
    }
