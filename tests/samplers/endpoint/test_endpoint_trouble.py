"""The endpoint sampler against servers in trouble: what passes is waited for, what does not is message."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from offleash.errors import OffleashError
from offleash.samplers.endpoint import sampler
from offleash.samplers.registry import model_of, open_sampler
from tests.samplers.endpoint.chunks import PLAIN, drawn, opened, texts, wanted
from tests.samplers.endpoint.server import Answer, Call, World, chat, good, serving, trouble


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(sampler, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(sampler, "GIVE_UP_AFTER", 0.3)


@pytest.mark.parametrize(
    "bad",
    [
        trouble(500, "oh"), trouble(503, "x"), Answer(body=b"<html>"), Answer(body=b'{"choices": [{"mess'), good([]),
        good({"error": {"message": "upstream"}}), good({"choices": []}), good({"choices": [{"message": "?"}]}),
        Answer(body=b"[" * 100_000), chat("half", finish="abort"), Answer(body=b"x", headers={"Content-Length": "100"}),
        chat(None, finish="content_filter"), chat("", finish="content_filter"),
    ],
)  # fmt: skip
def test_a_failure_that_may_pass_is_retried_and_then_the_error_of_that_problem(bad: Answer) -> None:
    with serving(lambda call: bad if call.number < 2 else chat("A")) as server:
        assert texts(drawn(opened(server), wanted(1))) == ["A"]
    with serving(lambda call: bad if "bad" in str(call.body) else chat("A")) as server:
        sampler = opened(server, timeout=3)
        failed, other = sampler.sample([wanted(1, problem="bad"), wanted(1)], PLAIN)
    assert not failed.samples
    assert "3 attempts" in failed.error
    assert texts(other) == ["A"]
    assert len(server.calls) == 4
    assert len({json.dumps(body) for body in server.bodies[:3]}) == 1  # the same request, with the same seed


def test_a_slow_server_is_left_after_the_timeout_with_what_to_do() -> None:
    with serving(lambda call: Answer(hang=600)) as server:
        begun = time.monotonic()
        failed = drawn(opened(server, timeout=0.2, tries=2), wanted())
        assert time.monotonic() - begun < 120
    for word in ("2 attempts", "0.2 seconds", "timeout=", "n="):
        assert word in failed.error


def test_a_server_that_is_down_ends_the_draw_and_says_that_it_resumes() -> None:
    with serving(World()) as server:
        pass
    for model in ("#m", ""):
        with pytest.raises(OffleashError, match="refused") as error:
            drawn(opened(server, model=model), wanted())
        assert server.url in str(error.value)
    with pytest.raises(OffleashError, match="Samples drawn so far are kept"):
        drawn(opened(server), wanted())


def test_an_address_where_nobody_listens_is_reported_at_once_when_models_are_listed() -> None:
    with serving(World()) as server:
        pass
    begun = time.monotonic()
    with pytest.raises(
        OffleashError, match=r"/v1/models could not be reached after 2 attempts.*refused.*Start the server"
    ):
        opened(server, model="", tries=50)
    assert time.monotonic() - begun < 30  # fifty tries would take minutes


def test_a_web_page_instead_of_a_list_of_models_is_reported_at_once() -> None:
    page = Answer(body=b"<!doctype html><title>Chat with me</title>")
    with serving(lambda call: page) as server, pytest.raises(OffleashError) as error:
        opened(server, model="")
    assert len(server.calls) == 1
    for word in ("/v1/models", "a web page", "Chat with me", "OpenAI-compatible", "#MODEL"):
        assert word in str(error.value)


def test_a_list_of_models_is_waited_for_while_a_server_loads() -> None:
    def reply(call: Call) -> Answer:
        return trouble(503, "Loading model") if call.number < 2 else good({"data": [{"id": "m"}]})

    with serving(reply) as server:
        assert opened(server, model="").about.model.endswith("#m")


def test_a_response_larger_than_any_reply_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "MAX_BYTES", 1000)
    with serving(lambda call: chat("A" * 2000)) as server:
        failed = drawn(opened(server), wanted())
    assert "longer than 1,000 bytes" in failed.error
    assert "n= (now 256)" in failed.error
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 16 tokens. However, you requested 100 tokens (90 in the messages).",
        "the request exceeds the available context size. try increasing the context size",
        "max_tokens must be at least 1, got -17.",
        "The input (100 tokens) is longer than the model's context length (16 tokens).",
    ],
)
def test_a_prompt_too_long_is_the_error_of_its_problem_alone(said: str) -> None:
    with serving(lambda call: trouble(400, said) if "long" in str(call.body) else World()(call)) as server:
        failed, other = opened(server).sample([wanted(problem="long"), wanted()], PLAIN)
    assert said[:20] in failed.error
    assert "do not fit the model's context" in failed.error
    assert len(texts(other)) == 4


@pytest.mark.parametrize("status", [401, 403, 402, 307])
def test_a_refusal_of_all_requests_ends_the_draw(status: int) -> None:
    with serving(lambda call: trouble(status, "no")) as server, pytest.raises(OffleashError, match=str(status)):
        drawn(opened(server), wanted())
    assert len(server.calls) == 1


def test_a_refusal_of_one_prompt_is_the_error_of_its_problem_alone() -> None:
    with serving(lambda call: trouble(400, "flagged") if "bad" in str(call.body) else World()(call)) as server:
        failed, other = opened(server).sample([wanted(problem="bad"), wanted()], PLAIN)
    assert "flagged" in failed.error
    assert len(texts(other)) == 4


def test_the_key_is_sent_in_its_header_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("MY_KEY", f" {secret}\n")
    for status in (401, 400, 500, 429, 404, 200):
        with serving(lambda call, s=status: trouble(s, f"bad key {secret} given")) as server:  # type: ignore[misc]
            sampler = opened(server, key="MY_KEY", tries=1)
            try:
                message = drawn(sampler, wanted()).error
            except OffleashError as error:
                message = f"{error}{error.__cause__}"
        assert "[key]" in message
        assert server.calls[0].headers["Authorization"] == f"Bearer {secret}"
        assert secret not in json.dumps(server.bodies)
        assert secret not in message + repr(sampler.about) + repr(vars(sampler))


ECHOES = {
    "a malformed header": Answer(200, b"{}", {"X bad": "hunter2-in-my-code"}),
    "a redirect": Answer(307, b"", {"Location": "http://host/v1/hunter2-in-my-code"}),
    "why it ended": chat("fine", finish="stop hunter2-in-my-code"),
    "the list of models": good({"data": [{"id": "hunter2-in-my-code"}]}),
}


@pytest.mark.parametrize("place", ECHOES)
def test_a_secret_that_a_server_repeats_anywhere_but_in_a_text_is_masked(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_CODE", "hunter2-in-my-code")
    with serving(lambda call: ECHOES[place]) as server:
        try:
            sampler = opened(server, model="/v1?code=$MY_CODE" + "#m" * (place != "the list of models"), tries=1)
            result = repr(drawn(sampler, wanted(1))) + repr(sampler.about)
        except OffleashError as error:
            result = str(error)
    assert "[key]" in result
    assert "hunter2" not in result


def test_many_threads_share_one_sampler_and_never_ask_more_at_a_time_than_set() -> None:
    def reply(call: Call) -> Answer:
        time.sleep(0.002)
        return trouble(500, "x") if call.number % 7 == 0 else World(ignores_n=True)(call)

    with serving(reply) as server, ThreadPoolExecutor(12) as pool:
        sampler = opened(server, concurrency=5, tries=10)
        assert (sampler.concurrency, sampler.batch_size, sampler.forwarded) == (5, 256, None)
        many = list(pool.map(lambda i: texts(drawn(sampler, wanted(8, first=8 * i))), range(24)))
        sampler.close()
    assert len({text for part in many for text in part}) == 24 * 8
    assert 1 < server.most <= 5


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("concurency", "4", "Did you mean 'concurrency'"),
        ("concurrency", "0", "1 or more; found '0'"),
        ("timeout", "soon", "seconds, above 0; found 'soon'"),
        ("logprobs", "on", "auto or off"),
        ("n", "1.5", "1 or more"),
        ("key", "sk-123", "name of an environment variable"),
        ("key", "sk123", "not set"),
        ("rate", "nan", "requests per minute"),
    ],
)
def test_a_setting_that_is_none_is_refused_with_what_it_takes(name: str, value: str, words: str) -> None:
    with pytest.raises(OffleashError) as error:
        open_sampler(model_of("endpoint:http://127.0.0.1:9#m", {name: value}))
    assert words in str(error.value)
    assert name != "key" or value not in str(error.value)


@pytest.mark.parametrize("url", ["localhost:8000", "http://", "file:///etc/passwd", "http://me:hunter2@h"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(OffleashError) as error:
        open_sampler(model_of(f"endpoint:{url}#m"))
    assert "hunter2" not in str(error.value)


def test_what_may_be_secret_in_an_address_is_not_kept_with_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_CODE", "hunter2")
    with serving(World()) as server:
        sampler = opened(server, model="/v1?code=$MY_CODE#m")
        texts(drawn(sampler, wanted(2)))
    assert server.calls[0].path == "/v1/chat/completions?code=hunter2"
    assert sampler.about.model == f"{server.url}/v1#m"
    assert sampler.about.versions["model"] == "world-1"
