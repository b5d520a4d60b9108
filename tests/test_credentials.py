"""Credentials that a user types: refused without being shown, and in no file, page, JSON, message or log."""

import json
import logging
from pathlib import Path

import pytest

import offleash as ol
from offleash.credentials import mask_credentials, public_url, refuse_credentials, server_address, without_credentials
from offleash.errors import OffleashError
from offleash.samplers.endpoint.chat import Chat
from offleash.samplers.registry import model_of, open_sampler
from tests.cli.command import Result, offleash, refused
from tests.drawing.drawn_world import RATES, drawn, problems_file, script
from tests.samplers.endpoint.server import Answer, Call, World, chat, serving

SECRET = "hunter2hunter2hunter2"
TOKEN = "hf_" + "aB3" * 11  # of the form of a Hugging Face token
WITH_CREDENTIALS = (
    f"https://host/v1?api-key={SECRET}",
    f"https://host/v1?key={SECRET}",
    f"https://host/v1?code={SECRET}",
    f"https://host/v1?{SECRET}",
    f"https://host/v1?api-version=2024-10-21&sig={SECRET}",
    f"https://host/v1?api-version=sk-{SECRET}",
    f"https://host/v1?%61pi-key={SECRET}",
    f"https://me:{SECRET}@host/v1",
    f"https://{SECRET}@host/v1",
    f"https://[::1?key={SECRET}",
    f"http:me:{SECRET}@host",
    f"https://host/v1;api-key={SECRET}",
    f"https://host/sk-{SECRET}/v1",
)


@pytest.mark.parametrize("url", WITH_CREDENTIALS)
def test_an_address_with_a_credential_is_refused_without_showing_it(url: str) -> None:
    for attempt in (
        lambda: model_of(f"endpoint:{url}#m"),
        lambda: model_of(f"endpoint:{url}"),
        lambda: Chat(url, "m"),
    ):
        with pytest.raises(OffleashError) as error:
            attempt()
        assert SECRET not in f"{error.value!r}{error.value.__cause__!r}{error.value.__context__!r}"
        assert "environment variable" in str(error.value)


@pytest.mark.parametrize("url", [url for url in WITH_CREDENTIALS if "://" in url])
def test_a_stored_address_is_shown_without_its_credential(url: str) -> None:
    assert SECRET not in without_credentials(f"endpoint:{url}#m")


def test_a_key_in_the_run_json_of_an_older_version_is_not_shown_and_its_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "rl"):
        drawn(tmp_path / name, script(tmp_path / f"{name}.json", RATES), 20, 20)
    document = json.loads((tmp_path / "base" / "run.json").read_text())
    model = f"endpoint:https://host/v1?api-key={SECRET}#m"
    document["facts"]["model"] = document["draw"]["model"] = model
    (tmp_path / "base" / "run.json").write_text(json.dumps(document))
    comparison = ol.compare(tmp_path / "base", tmp_path / "rl")
    comparison.show()
    comparison.save(tmp_path / "report.html")
    shown = capsys.readouterr().out
    everything = [shown, repr(comparison), json.dumps(comparison.to_dict()), (tmp_path / "report.html").read_text()]
    assert not any(SECRET in text for text in everything)
    note = f"{tmp_path / 'base' / 'run.json'} contains what looks like a key (model), which is not shown"
    assert note in json.dumps(comparison.to_dict())
    assert "run.jsoncontainswhatlookslikeakey" in "".join(shown.split())  # a long path is broken anywhere


def test_the_refusal_says_how_to_give_the_key() -> None:
    with pytest.raises(OffleashError) as error:
        model_of(f"endpoint:https://host/v1?code={SECRET}#m")
    assert "OPENAI_API_KEY" in str(error.value)
    assert "'https://host/v1?code=$NAME'" in str(error.value)


@pytest.mark.parametrize("name", [f"m?api-key={SECRET}", f"m&key={SECRET}", f"key={SECRET}", f"sk-{SECRET}", TOKEN])
def test_a_model_that_a_credential_was_put_into_is_refused(name: str) -> None:
    for text in (f"endpoint:https://host/v1#{name}", f"https://host/v1?key={SECRET}#{name}"):
        with pytest.raises(OffleashError) as error:
            model_of(text)
        assert SECRET not in str(error.value)
        assert TOKEN not in str(error.value)


def test_tokens_in_names_and_settings_of_local_engines_are_refused(tmp_path: Path) -> None:
    for text, settings in (
        (f"hf:https://me:{TOKEN}@huggingface.co/org/model", {}),
        (f"vllm:org/model@{TOKEN}", {}),
        (f"hf:org/{TOKEN}", {}),
        ("vllm:org/model", {"hf_token": "not-of-a-known-form"}),
        ("vllm:org/model", {"hf_overrides": json.dumps({"token": TOKEN})}),
        ("vllm:org/model", {"download_dir": f"https://me:{SECRET}@host"}),
    ):
        with pytest.raises(OffleashError, match="HF_TOKEN") as error:
            model_of(text, settings)
        assert not any(secret in str(error.value) for secret in (TOKEN, SECRET, "not-of-a-known-form"))
    model_of("vllm:org/model", {"hf_token": "true", "tokenizer": "org/other", "max_num_batched_tokens": "4096"})
    (tmp_path / TOKEN).mkdir()  # a folder of that name is no secret
    assert model_of(f"hf:{tmp_path / TOKEN}").name == str(tmp_path / TOKEN)


def test_ordinary_names_and_addresses_pass() -> None:
    for url in ("http://localhost:8000", "https://h/openai/v1?api-version=2024-10-21-preview", "http://h:1/a@b/v1"):
        assert server_address(url).full() == server_address(url).public == url
        assert public_url(url) == url.partition("?")[0]
    for name in ("org/model@v2+./adapter", "./runs/end_token-3/sk-8", "https://h/v1#@cf/meta/llama-3.1-8b"):
        refuse_credentials(name, {"key": "MY_KEY", "dtype": "float32"})
        assert mask_credentials(name) == name


def test_a_text_on_its_way_out_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-key-of-no-known-form")
    text = f"https://me:{SECRET}@h/v1?a={SECRET}&b=$NAME {TOKEN} api_key={SECRET} a-key-of-no-known-form --set key=NAME"
    shown = "https://h/v1?a=[hidden]&b=$NAME [hidden] api_key=[hidden] [SOME_API_KEY] --set key=NAME"
    assert mask_credentials(text) == shown


def test_a_variable_that_an_address_names_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_CODE", raising=False)
    with pytest.raises(OffleashError, match="MY_CODE, which is not set"):
        open_sampler(model_of("endpoint:http://127.0.0.1:9/v1?code=$MY_CODE#m"))


def echo(call: Call) -> Answer:
    """A server that repeats what it was sent, in its model's name and in its errors."""
    if call.number == 1:
        said = json.dumps({"error": {"message": f"busy: {call.path} {call.headers}"}}).encode()
        return Answer(500, said)
    if call.body.get("temperature") == 0:  # the judge
        return chat(f"Verdict: INCORRECT {call.path}")
    if "Which number is 1" in json.dumps(call.body):
        return Answer(400, json.dumps({"error": {"message": f"no: {call.path} {call.headers}"}}).encode())
    answer = World()(call)
    document = json.loads(answer.body)
    names = {"model": call.path, "system_fingerprint": str(call.headers)}
    return Answer(body=json.dumps({**document, **names}).encode(), headers={"X-Sent": str(call.headers)})


def everything(folder: Path, *results: Result) -> bytes:
    """All bytes below a folder and all that was printed."""
    files = b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())
    return files + "".join(result.out + result.err for result in results).encode()


def test_a_key_that_the_server_wants_in_its_address_is_sent_and_is_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code, key = "c0de/with+signs=", "key-in-the-header"
    monkeypatch.setenv("MY_CODE", code)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    problems_file(tmp_path / "problems.jsonl", 2)
    with caplog.at_level(logging.DEBUG), serving(echo) as server:
        model = f"endpoint:{server.url}/v1?api-version=2&code=$MY_CODE#m"
        words = ("draw", tmp_path / "problems.jsonl", model, "-k", "8", "--set", "n=4")
        drawn = offleash(*words, "--set", "tries=2", "-o", tmp_path / "run")
        other = offleash(*words, "--set", "tries=2", "--seed", "1", "-o", tmp_path / "other")
        page = tmp_path / "page.html"
        judge = f"{server.url}/v1?code=$MY_CODE"
        judging = ("--verifier", "referee", "--judge", judge, "--judge-model", "m")
        verified = offleash("verify", tmp_path / "run", tmp_path / "other", *judging, "--no-cache")
        report = offleash("compare", tmp_path / "run", tmp_path / "other", *judging, "--report", page, "--json")
    assert server.calls[0].path == "/v1/chat/completions?api-version=2&code=c0de%2Fwith%2Bsigns%3D"
    assert server.calls[0].headers["Authorization"] == f"Bearer {key}"
    assert list((tmp_path / "run" / "samples").glob("*.parquet")), drawn.err
    assert page.exists(), report.err
    written = everything(tmp_path, drawn, other, verified, report) + caplog.text.encode()
    assert b"$MY_CODE" in written  # the run says where its key comes from
    for secret in (code, key, "c0de%2F", "c0de"):
        assert secret.encode() not in written


def test_a_key_in_a_command_is_in_no_file_and_on_no_terminal(tmp_path: Path) -> None:
    problems_file(tmp_path / "problems.jsonl", 2)
    results = []
    with serving(lambda call: chat("\\boxed{0}")) as server:
        for url in (f"{server.url}/v1?api-key={SECRET}", f"{server.url.replace('//', f'//me:{SECRET}@')}/v1"):
            words = ("draw", tmp_path / "problems.jsonl", f"endpoint:{url}#m", "-k", "4", "-o", tmp_path / "run")
            results.append(offleash(*words))
            results.append(offleash(*words[:2], url, *words[3:]))  # the prefix forgotten
            pair = ("study", tmp_path / "problems.jsonl", f"endpoint:{url}#a", f"endpoint:{url}#b")
            results.append(offleash(*pair, "-k", "4", "-o", tmp_path / "study"))
            judging = ("--verifier", "model_judge", "--judge", url, "--judge-model", "m")
            results.append(offleash("verify", tmp_path / "run", *judging))
    for result in results:
        refused(result)
    assert not server.calls
    assert SECRET.encode() not in everything(tmp_path, *results)


def test_a_command_on_a_page_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from offleash.cli.output import command_line

    words = ["offleash", "compare", f"https://me:{SECRET}@h/base", f"https://h/rl?sig={SECRET}", "--map", "a b=c"]
    monkeypatch.setattr("sys.argv", words)
    assert command_line() == "offleash compare https://h/base 'https://h/rl?sig=[hidden]' --map 'a b=c'"
