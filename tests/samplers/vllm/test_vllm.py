"""The `vllm:` sampler and its worker, with a stand-in for vLLM itself; tests/real has the engine."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.samplers.chat_template import NO_OPTIONS, ChatOptions
from offleash.samplers.registry import Model, model_of, open_sampler
from offleash.samplers.sampler import Request, SampleChunk, SamplingParams
from offleash.samplers.seeds import sample_seeds
from offleash.samplers.vllm.sampler import VllmSampler
from tests.samplers.vllm.stand_in_vllm import BEGIN, MOST
from tests.samplers.vllm.vllm_groups import alive, gone

HERE = Path(__file__).parent
Opened = Callable[..., VllmSampler]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a model's, and a Python that has a package vllm."""
    package = tmp_path / "site" / "vllm"
    package.mkdir(parents=True)
    shutil.copy(HERE / "stand_in_vllm.py", package / "__init__.py")
    (package / "sampling_params.py").write_text("from vllm import RequestOutputKind, SamplingParams\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.delenv("OFFLEASH_VLLM_PYTHON", raising=False)
    # the stand-in has no resource tracker to wait for, only dead processes that the machine's init has yet to collect
    monkeypatch.setattr("offleash.samplers.vllm.process.CLEANUP_SECONDS", 0.1)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def opened(model: Path) -> Iterator[Opened]:
    samplers: list[VllmSampler] = []

    def open_one(raw: bool = False, chat: ChatOptions = NO_OPTIONS, **settings: str) -> VllmSampler:
        sampler = open_sampler(Model("vllm", str(model), settings=settings, raw=raw, chat=chat))
        assert isinstance(sampler, VllmSampler)
        samplers.append(sampler)
        return sampler

    yield open_one
    for sampler in samplers:
        sampler.close()
        assert gone(sampler.process.pid)


def request(problem: str, prompt: str = "hi", first: int = 0, size: int = 5) -> Request:
    return Request(problem, prompt, first, size, seed=2**64 - 5)


def drawn(sampler: VllmSampler, *requests: Request, decoding: SamplingParams | None = None) -> dict[str, SampleChunk]:
    actual = list(sampler.sample(requests, decoding or SamplingParams()))
    by_problem = {item.request.problem: item for item in actual}
    assert len(actual) == len(by_problem) == len(requests)
    return by_problem


def test_every_request_is_answered_once_and_a_sample_depends_on_its_index_alone(opened: Opened) -> None:
    sampler = opened()
    result = drawn(sampler, *(request(f"p{i}", first=10 * i, size=i + 1) for i in range(20)))
    for i in range(20):
        samples = result[f"p{i}"].samples
        assert [sample.index for sample in samples] == list(range(10 * i, 10 * i + i + 1))
        seeds = [int(seed) >> 1 for seed in sample_seeds(2**64 - 5, 10 * i, i + 1)]
        assert [sample.seed for sample in samples] == [int(s.text.split()[1]) for s in samples] == seeds
        assert {(s.tokens, s.logprob_raw, s.entropy_raw) for s in samples} == {(4, -1.5, None)}
        assert [s.finish for s in samples] == ["stop" if seed % 2 else "length" for seed in seeds]
    again = drawn(sampler, request("p3", first=32, size=2))["p3"].samples
    assert [(s.index, s.seed) for s in again] == [(s.index, s.seed) for s in result["p3"].samples[2:]]


def test_the_sampled_log_probability_is_known_only_where_nothing_was_changed(opened: Opened) -> None:
    sampler = opened()
    plain = drawn(sampler, request("p"))["p"].samples[0]
    cut = drawn(sampler, request("p"), decoding=SamplingParams(top_p=0.9))["p"].samples[0]
    assert (plain.logprob_sampled, cut.logprob_sampled) == (-1.5, None)


def test_the_engine_is_given_a_few_samples_at_a_time(opened: Opened) -> None:
    samples = drawn(opened(), request("p", size=3000), request("q", size=3000))["p"].samples
    there = [int(sample.text.split()[2]) for sample in samples]
    assert MOST < max(there) <= 2 * MOST


def test_an_error_of_one_request_leaves_the_others_alone(opened: Opened) -> None:
    sampler = opened(template="<s>PROMPT", max_model_len="20")
    odd = {"long": "x" * 21, "picture": "untemplatable", "ended": "~"}
    result = drawn(sampler, *(request(name, prompt) for name, prompt in odd.items()), request("good"))
    assert result["long"].error == "The prompt (length 24) is longer than 20."
    assert "no such thing" in result["picture"].error
    assert "abort" in result["ended"].error
    assert not any(result[name].samples for name in odd)
    assert len(result["good"].samples) == 5
    assert len(drawn(sampler, request("after"))["after"].samples) == 5


def test_a_template_begins_the_text_and_a_bare_prompt_gets_the_token_that_begins_one(opened: Opened) -> None:
    asked, tokens = {}, {}
    for name, sampler in {
        "chat": opened(template="<PROMPT>"),
        "raw": opened(raw=True, template="<PROMPT>"),
        "base": opened(),
    }.items():
        asked[name] = sampler.rendered_prompt("hi")
        tokens[name] = drawn(sampler, request("p"))["p"].samples[0].text.split()[0]
    assert asked == {"chat": "<hi>", "raw": "hi", "base": "hi"}
    options = ChatOptions("Think.", {"brief": True})
    added = opened(template="<SYSTEM|PROMPT|brief>", chat=options)
    assert added.rendered_prompt("hi") == "<Think.|hi|True>"
    assert (added.about.system, added.about.chat_kwargs) == ("Think.", {"brief": True})
    for template, reason in (
        ("", "no chat template"),
        ("<SYSTEM|PROMPT>", "no variable 'brief'"),
        ("<PROMPT|brief>", "ignores the system message"),
    ):
        with pytest.raises(OffleashError, match=reason):
            opened(template=template, chat=options).rendered_prompt("hi")
    begun = f"{BEGIN},{ord('h')},{ord('i')}"
    assert tokens == {"chat": ",".join(str(ord(letter)) for letter in "<hi>"), "raw": begun, "base": begun}


def test_a_call_can_be_left_early_and_another_begun(opened: Opened) -> None:
    sampler = opened(trouble="slow")
    call = sampler.sample([request(f"p{i}", size=4) for i in range(100)], SamplingParams())
    assert next(call).samples
    assert sampler.rendered_prompt("meanwhile") == "meanwhile"
    assert next(call).samples
    call.close()  # type: ignore[attr-defined]
    assert set(drawn(sampler, request("q"))) == {"q"}


def test_settings_reach_the_engine_as_what_they_are(opened: Opened) -> None:
    settings = {"tensor_parallel_size": "2", "enable_prefix_caching": "False", "hf_overrides": '{"a": [1.5]}'}
    with pytest.raises(OffleashError) as refusal:
        opened(trouble="options", start="60", template="4k", **settings)
    for words in ("'tensor_parallel_size': 2", "'enable_prefix_caching': False", "{'a': [1.5]}", "'4k'", "'seed': 0"):
        assert words in str(refusal.value)
    assert "start" not in str(refusal.value)


def test_who_answers_does_not_depend_on_where_the_model_runs(opened: Opened) -> None:
    about = opened(tensor_parallel_size="2", start="60", cpu_kvcache_space="1", max_model_len="40").about
    assert (about.settings, about.versions) == ({"max_model_len": "40"}, {"vllm": "0.0.stand-in"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tensor_paralel_size": "2"}, "no engine option 'tensor_paralel_size'. Did you mean 'tensor_parallel_size'?"),
        ({"logprobs_mode": "processed_logprobs"}, "logprobs_mode cannot be set"),
        ({"trouble": "core"}, "ValueError: no kernel for heads of 7"),
        ({"trouble": "slow start", "start": "1"}, "--set start=SECONDS"),
        ({"start": "soon"}, "start must be a number above 0; found 'soon'"),
        ({"python": "/no/such/python"}, "cannot be run"),
    ],
)
def test_an_engine_that_does_not_start_is_reported_in_one_line(
    opened: Opened, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(OffleashError, match=re.escape(words)) as refusal:
        opened(**settings)
    assert "\n" not in str(refusal.value)


def test_a_python_without_vllm_is_told_how_to_get_one(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("OFFLEASH_VLLM_PYTHON", sys.executable)
    with pytest.raises(OffleashError, match=r"No module named 'vllm'.*pip install vllm.*OFFLEASH_VLLM_PYTHON"):
        opened()


def test_a_folder_that_is_no_model_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match="no file or folder /no/such/model"):
        open_sampler(model_of("vllm:/no/such/model"))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(OffleashError, match=r"no config.json.*vllm:BASE\+ADAPTER"):
        open_sampler(model_of(f"vllm:{tmp_path}"))


def test_a_decoding_that_the_engine_would_change_is_refused_and_the_engine_stays(opened: Opened) -> None:
    sampler = opened()
    for decoding, words in [
        (SamplingParams(min_p=0.1, top_p=0.9), "min-p before top-p"),
        (SamplingParams(temperature=3), r"temperature must be in \[0, 2\]"),
        (SamplingParams(temperature=0.001), "0.01 or more; found 0.001"),
    ]:
        with pytest.raises(OffleashError, match=words):
            list(sampler.sample([request("p")], decoding))
    assert drawn(sampler, request("p"))["p"].samples


def test_a_worker_that_dies_is_an_error_with_its_last_words(opened: Opened) -> None:
    sampler = opened(trouble="dies")
    with pytest.raises(OffleashError, match=r"status 3.*RuntimeError: out of pages"):
        list(sampler.sample([request("p", size=100)], SamplingParams()))
    assert gone(sampler.process.pid)


def test_a_killed_worker_is_an_error_and_leaves_nothing_behind(opened: Opened) -> None:
    sampler = opened(trouble="slow")
    call = sampler.sample([request(f"p{i}") for i in range(100)], SamplingParams())
    next(call)
    assert len(alive(sampler.process.pid)) == 2  # the worker, and the engine's own process
    os.kill(sampler.process.pid, signal.SIGKILL)
    with pytest.raises(OffleashError, match="SIGKILL"):
        list(call)
    assert gone(sampler.process.pid)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("trouble", ["slow", "slow start"])
def test_nothing_outlives_a_parent_that_is_stopped(model: Path, how: signal.Signals, trouble: str) -> None:
    script = """
import subprocess, sys
from offleash.samplers.vllm import process
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import SamplingParams, Request
started = process.WorkerProcess.__init__
def start(self, *arguments):
    started(self, *arguments)
    print(self.pid, flush=True)
process.WorkerProcess.__init__ = start
sampler = open_sampler(model_of(sys.argv[1], {"trouble": sys.argv[2]}))
for drawn in sampler.sample([Request(str(i), "hi", 0, 5, 0) for i in range(10000)], SamplingParams()):
    print("drawn", flush=True)
"""
    command = [sys.executable, "-c", script, f"vllm:{model}", trouble]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout
        group = int(parent.stdout.readline())
        if trouble == "slow":
            assert parent.stdout.readline() == "drawn\n"
        parent.send_signal(how)
        assert gone(group)
        parent.wait(20)


def test_a_chat_template_that_fails_is_named_and_the_engine_can_be_used_on(opened: Opened) -> None:
    sampler = opened(template="<PROMPT>")
    with pytest.raises(OffleashError, match=r"chat template of the model failed \(KeyError: .*--raw"):
        sampler.rendered_prompt("untemplatable")
    assert sampler.rendered_prompt("hi") == "<hi>"
