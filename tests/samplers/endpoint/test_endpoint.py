"""The endpoint sampler against real local servers, good ones and odd ones: exactly the samples asked for."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest

from offleash.errors import OffleashError
from offleash.samplers.chat_template import ChatOptions
from offleash.samplers.endpoint import sampler
from offleash.samplers.registry import Model
from offleash.samplers.sampler import FINISHED, TRUNCATED
from offleash.samplers.seeds import chunk_seed
from tests.samplers.endpoint.chunks import PLAIN, drawn, opened, texts, wanted
from tests.samplers.endpoint.server import LOGPROB, Answer, Call, World, chat, good, serving, trouble

PAPER = replace(PLAIN, temperature=0.6, top_p=0.95)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(sampler, "FIRST_PAUSE", 0.01)


def test_all_samples_of_a_chunk_are_one_request() -> None:
    with serving(World()) as server:
        result = drawn(opened(server), wanted(4, first=8))
    assert len(set(texts(result))) == 4
    assert [call.path for call in server.calls] == ["/v1/chat/completions"]
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "What is p?"}],
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "seed": chunk_seed(7, 8, 4),
            "n": 4,
            "logprobs": True,
            "return_token_ids": True,
            "max_tokens": 10,
        }
    ]
    assert "Authorization" not in server.calls[0].headers


def test_a_system_message_and_variables_of_the_template_are_sent_and_never_dropped() -> None:
    options = ChatOptions("Think.", {"enable_thinking": False})

    def refusing(call: Call) -> Answer:
        return trouble(400, "Unrecognized request argument supplied: chat_template_kwargs")

    for world, accepted in ((World(), True), (refusing, False)):
        with serving(world) as server:
            model = Model("endpoint", f"{server.url}#m", chat=options)
            one = sampler.open_sampler(model)
            chunk = drawn(one, wanted(2))
            assert (len(chunk.samples) == 2) is accepted
            assert ("chat_template_kwargs" in chunk.error) is not accepted
        assert server.bodies[0]["messages"][0] == {"role": "system", "content": "Think."}
        assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in server.bodies)


def test_a_raw_prompt_goes_to_completions_unchanged() -> None:
    with serving(World()) as server:
        sampler = opened(server, raw=True)
        result = drawn(sampler, wanted(3), replace(PLAIN, stop=("\n\n",), top_k=5))
    assert len(set(texts(result))) == 3
    assert server.calls[0].path == "/v1/completions"
    body = server.bodies[0]
    assert (body["prompt"], body["stop"], body["top_k"]) == ("What is p?", ["\n\n"], 5)
    assert sampler.rendered_prompt("a prompt") == "a prompt"
    assert sampler.about.raw


@pytest.mark.parametrize("raw", [False, True])
def test_log_probabilities_are_summed_with_the_end_where_the_decoding_is_plain(raw: bool) -> None:
    with serving(World(words=6)) as server:
        sampler = opened(server, raw=raw)
        for sample in drawn(sampler, wanted(3)).samples:
            assert (sample.tokens, sample.finish) == (7, FINISHED)
            assert sample.logprob_raw == sample.logprob_sampled == pytest.approx(7 * LOGPROB)
        for sample in drawn(sampler, wanted(3), replace(PLAIN, max_tokens=4)).samples:
            assert (sample.tokens, sample.finish) == (4, TRUNCATED)
            assert sample.logprob_raw == pytest.approx(4 * LOGPROB)
        for sample in drawn(sampler, wanted(3), PAPER).samples:
            assert sample.tokens == 7
            assert sample.logprob_raw is sample.logprob_sampled is None
    assert ["return_token_ids" in body for body in server.bodies] == [True, False, True]
    assert "logprobs" not in server.bodies[-1]  # the ids told how many, and are shorter


def test_sums_that_miss_a_token_are_not_given() -> None:
    with serving(World(gives_end=False, usage=False)) as server:  # the text's own tokens alone
        assert {sample.logprob_raw for sample in drawn(opened(server), wanted(3)).samples} == {None}
    steps = [{"token": "a", "logprob": -1.0}, {"token": "<end>", "logprob": -2.0}]
    for tokens, values, expected in [(2, steps, -3.0), (90, steps, None), (2, [{"token": "a"}], None)]:
        choice = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": {"content": values}}
        document = {"choices": [choice], "usage": {"completion_tokens": tokens}}
        with serving(lambda call, document=document: good(document)) as server:  # type: ignore[misc]
            (sample,) = drawn(opened(server), wanted(1)).samples
        assert (sample.logprob_raw, sample.tokens) == (expected, tokens)


def test_sums_of_another_distribution_than_the_models_own_are_not_given() -> None:
    steps = {"content": [{"token": "<end>", "logprob": -1.0}]}
    choice = {"message": {"content": "a"}, "finish_reason": "stop", "logprobs": steps}
    with serving(lambda call: good({"choices": [choice]})) as server:
        sampler = opened(server)
        sums = [drawn(sampler, wanted(1), item).samples[0].logprob_raw for item in (PLAIN, PAPER)]
    assert sums == [-1.0, None]


@pytest.mark.parametrize("world", [World(gives_logprobs=False), World(refuses=("logprobs",))])
def test_log_probabilities_are_requested_once_from_a_server_without_them(world: World) -> None:
    with serving(world) as server:
        sampler = opened(server)
        for first in (0, 4, 8):
            result = drawn(sampler, wanted(first=first))
            assert len(set(texts(result))) == 4
            assert {sample.logprob_raw for sample in result.samples} == {None}
        assert {sample.tokens for sample in result.samples} == {7}  # told by the tokens' ids instead
    assert [body.get("logprobs") for body in server.bodies].count(True) == 1
    assert "logprobs" in sampler.about.versions["left_out"]


def test_log_probabilities_can_be_turned_off() -> None:
    with serving(World()) as server:
        assert drawn(opened(server, logprobs="off"), wanted()).samples[0].logprob_raw is None
    assert "logprobs" not in server.bodies[0]


@pytest.mark.parametrize(
    ("world", "later"), [(World(ignores_n=True), [1]), (World(most=3), [2, 1]), (World(copies=True), [1])]
)
def test_a_server_that_does_not_give_n_samples_gets_more_requests(world: World, later: list[int]) -> None:
    with serving(world) as server:
        sampler = opened(server)
        assert len(set(texts(drawn(sampler, wanted(9))))) == 9
        before = len(server.calls)
        assert len(set(texts(drawn(sampler, wanted(9, first=9))))) == 9
        asked = [body.get("n", 1) for body in server.bodies]
    assert sorted(set(asked[before:]), reverse=True) == later  # remembered
    seeds = [body["seed"] for body, n in zip(server.bodies, asked, strict=True) if n <= max(later)]
    assert len(set(seeds)) == len(seeds)
    assert sampler.about.versions["n"].startswith(str(max(later)))


def test_seeds_are_never_neighbours_and_belong_to_the_chunk() -> None:
    with serving(World(ignores_n=True)) as server:
        sampler = opened(server, n=1)
        draws = [texts(drawn(sampler, wanted(8, first=first))) for first in (0, 8, 0)]
    assert draws[0] == draws[2]
    assert not set(draws[0]) & set(draws[1])
    seeds = sorted({body["seed"] for body in server.bodies})
    assert len(seeds) == 16
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert min(b - a for a, b in pairwise(seeds)) > 1000


def test_a_chunk_larger_than_n_is_requested_in_parts_at_a_time() -> None:
    with serving(World()) as server:
        assert len(set(texts(drawn(opened(server, n=4), wanted(10))))) == 10
    assert sorted(body.get("n", 1) for body in server.bodies) == [2, 4, 4]


def test_choices_beyond_those_requested_are_dropped() -> None:
    with serving(lambda call: chat("a", "b", "c", "d")) as server:
        assert texts(drawn(opened(server), wanted(3))) == ["a", "b", "c"]


def test_a_model_with_one_answer_costs_few_requests_more() -> None:
    same = "a long and always equal answer"
    with serving(lambda call: chat(*[same] * call.body.get("n", 1))) as server:
        sampler = opened(server)
        for first in range(0, 100, 5):
            assert texts(drawn(sampler, wanted(5, first=first))) == [same] * 5
    assert len(server.calls) == 20 + 3
    with serving(lambda call: chat(*["short"] * call.body.get("n", 1))) as server:
        assert texts(drawn(opened(server), wanted(5))) == ["short"] * 5
    assert len(server.calls) == 1


def test_a_pair_that_is_equal_by_chance_is_not_taken_for_copies() -> None:
    said = {1: ["another answer of the model"], 2: ["the answer it often gives"] * 2}
    with serving(lambda call: chat(*said.get(call.body.get("n", 1), map(str, range(32))))) as server:
        sampler = opened(server)
        for first in (0, 2, 4):
            assert texts(drawn(sampler, wanted(2, first=first))) == said[2]
    assert "n" not in sampler.about.versions


def test_no_thread_keeps_copies_while_another_looks_into_them() -> None:
    gate = threading.Barrier(8, timeout=10)

    def reply(call: Call) -> Answer:
        if call.body.get("n") == 4:
            gate.wait()
        return World(copies=True)(call)

    with serving(reply) as server, ThreadPoolExecutor(8) as pool:
        sampler = opened(server)
        many = list(pool.map(lambda i: texts(drawn(sampler, wanted(4, problem=f"p{i}", first=4 * i))), range(8)))
    assert all(len(set(item)) == 4 for item in many)


def test_values_that_change_nothing_are_left_out_where_a_server_refuses_them() -> None:
    refuses = ("top_k", "min_p", "repetition_penalty", "return_token_ids", "temperature", "top_p")
    with serving(World(refuses=refuses)) as server:
        sampler = opened(server)
        assert len(set(texts(drawn(sampler, wanted())))) == 4
        count = len(server.calls)
        texts(drawn(sampler, wanted(first=4)))
        assert len(server.calls) == count + 1
    with serving(World(refuses=refuses)) as server, pytest.raises(OffleashError, match=r"refuses temperature 0\.6"):
        drawn(opened(server), wanted(), PAPER)
    with serving(World(refuses=refuses)) as server, pytest.raises(OffleashError, match="refuses top_k 20"):
        drawn(opened(server), wanted(), replace(PLAIN, top_k=20))


def test_fields_are_recognised_in_the_refusals_of_other_servers() -> None:
    said: list[tuple[str, Callable[[str], Answer]]] = [
        ("seed", lambda name: Answer(422, json.dumps({"detail": f"Unexpected fields: {{'{name}'}}"}).encode())),
        ("min_p", lambda name: Answer(400, json.dumps({"error": {"message": "bad", "param": name}}).encode())),
        ("logprobs", lambda name: trouble(403, "You are not allowed to request Logprobs from this model, N/A")),
        ("top_k", lambda name: Answer(400, b'{"object": "error", "message": "top_k must be >= 0; see temperature"}')),
        ("n", lambda name: trouble(500, "Only one completion choice is allowed")),
    ]  # fmt: skip
    for name, answer in said:
        with serving(lambda call, n=name, a=answer: a(n) if n in call.body else World()(call)) as server:  # type: ignore[misc]
            sampler = opened(server)
            assert len(set(texts(drawn(sampler, wanted())))) == 4, name
        assert name in sampler.about.versions["left_out"] if name != "n" else sampler.about.versions["n"] == "1"


def test_a_model_with_another_name_for_its_limit_gets_it() -> None:
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with serving(lambda call: trouble(400, said) if "max_tokens" in call.body else chat("A")) as server:
        assert texts(drawn(opened(server), wanted(1))) == ["A"]
    assert server.bodies[-1]["max_completion_tokens"] == 10
    for said in ("max_tokens is too large: 10", "max_tokens=10 cannot be greater than max_model_len=8."):
        with (
            serving(lambda call, said=said: trouble(400, said)) as server,  # type: ignore[misc]
            pytest.raises(OffleashError, match="refuses max_tokens 10"),
        ):
            drawn(opened(server), wanted(1))


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_a_server_splits_off_is_put_back_in_its_block(name: str) -> None:
    with serving(World(thinks=name)) as server:
        (sample,) = drawn(opened(server), wanted(1)).samples
    assert sample.text.startswith("<think>\na thought\n</think>\n word")
    assert sample.logprob_raw is not None


def test_reasoning_that_was_cut_off_stays_open() -> None:
    choice = {"message": {"content": None, "reasoning": "so \\boxed{3} or"}, "finish_reason": "length"}
    with serving(lambda call: good({"choices": [choice]})) as server:
        (sample,) = drawn(opened(server), wanted(1)).samples
    assert (sample.text, sample.finish) == ("<think>\nso \\boxed{3} or", TRUNCATED)


def test_a_choice_without_text_is_a_sample_of_its_finish() -> None:
    for content, finish, expected in [
        ("cut", "content_filter", "cut"),
        (None, None, ""),
        ("\ud800x", "tool_calls", "?x"),
    ]:
        with serving(lambda call, c=content, f=finish: chat(c, finish=f)) as server:  # type: ignore[misc]
            (sample,) = drawn(opened(server), wanted(1)).samples
        assert (sample.text, sample.finish) == (expected, finish or "")


def test_images_go_as_parts_before_the_text_and_never_raw() -> None:
    images = ("data:image/png;base64,AAAA", "data:image/png;base64,BBBB")
    with serving(World()) as server:
        texts(drawn(opened(server), wanted(2, images=images)))
        assert server.bodies[0]["messages"][0]["content"] == [
            *({"type": "image_url", "image_url": {"url": image}} for image in images),
            {"type": "text", "text": "What is p?"},
        ]
        with pytest.raises(OffleashError, match="without --raw"):
            drawn(opened(server, raw=True), wanted(2, images=images))


def test_the_only_model_of_a_server_is_used_and_several_are_listed() -> None:
    def listing(*names: str) -> Callable[[Call], Answer]:
        document = {"data": [{"id": name} for name in names]}
        return lambda call: World()(call) if call.body else good(document)

    with serving(listing("org/one")) as server:
        sampler = opened(server, model="")
        texts(drawn(sampler, wanted(2)))
    assert server.calls[0].path == "/v1/models"
    assert server.bodies[0]["model"] == "org/one"
    assert sampler.about.model == f"{server.url}#org/one"
    with serving(listing("org/one", "org/two")) as server, pytest.raises(OffleashError) as error:
        opened(server, model="")
    for word in ("org/one", "org/two", f"endpoint:{server.url}#org/one"):
        assert word in str(error.value)
    for answer in (trouble(404, "no"), Answer(body=b"<html>"), good({"data": []}), good({"error": "x"})):
        with serving(lambda call, a=answer: a) as server, pytest.raises(OffleashError, match="#MODEL"):  # type: ignore[misc]
            opened(server, model="")
        assert len(server.calls) == 1


def test_a_model_that_a_server_has_not_is_answered_with_those_it_has() -> None:
    def reply(call: Call) -> Answer:
        return trouble(404, "The model `m` does not exist.") if call.body else good({"data": [{"id": "org/one"}]})

    with serving(reply) as server, pytest.raises(OffleashError) as error:
        drawn(opened(server, model="#org/on"), wanted())
    for word in ("404", "org/on", "Did you mean 'org/one'?"):
        assert word in str(error.value)
