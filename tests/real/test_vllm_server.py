"""vLLM's own server, asked through `endpoint:`, against plain forward passes of the same model: `make test-vllm`."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import Request, Sample, Sampler, SamplingParams
from tests.places import ROOT
from tests.real.enumeration import completions, p_value
from tests.real.models import tiny_model
from tests.samplers.vllm.vllm_groups import gone

pytestmark = pytest.mark.vllm
START = 300  # seconds for the server to answer
SHORT = SamplingParams(max_tokens=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A server on loopback."""
    python = os.environ.get("OFFLEASH_VLLM_PYTHON", str(ROOT / ".envs" / "vllm" / "bin" / "python"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--dtype", "float32", "--enforce-eager", "--max-model-len", "64"]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), *options]
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=output,
            env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
            cwd=folder,
            start_new_session=True,
        )
        try:
            _wait(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()  # first in good order: a server that is killed leaves shared memory behind
            if not gone(server.pid, 30):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            assert gone(server.pid)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert server.poll() is None, log.read_text(errors="replace")[-3000:]
            time.sleep(1)
    raise AssertionError(f"no server within {START} s: {log.read_text(errors='replace')[-3000:]}")


@pytest.fixture
def sampler(address: str) -> Iterator[Sampler]:
    opened = open_sampler(model_of(f"endpoint:{address}", {"n": "1024"}, raw=True))
    yield opened
    opened.close()


def test_a_request_for_1024_samples_gets_them_with_log_probabilities(sampler: Sampler, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    plain: tuple[Any, Any] = (AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    expected = completions(*plain, prompt_ids=[0, 1, 2], decoding=SHORT)
    samples: list[Sample] = []
    for first in range(0, 4096, 1024):
        (drawn,) = sampler.sample([Request("p", "a b c", first, 1024, seed=7)], SHORT)
        assert not drawn.error
        assert [sample.index for sample in drawn.samples] == list(range(first, first + 1024))
        samples += drawn.samples
    p = p_value([sample.text.strip() for sample in samples], expected)
    worst = max(abs((sample.logprob_raw or 0) - expected[sample.text.strip()].raw) for sample in samples)
    print(f"\nchi-square of 4096 samples through the server: p = {p:.3f}; log-probabilities within {worst:.1e}")
    assert p > 1e-3
    assert worst < 1e-4
    assert {s.finish for s in samples} == {"stop", "length"}


def test_the_same_request_gets_the_same_samples(sampler: Sampler) -> None:
    request = Request("p", "a b c", 0, 256, seed=11)
    (first,), (again,) = (list(sampler.sample([request], SHORT)) for _ in range(2))
    assert [sample.text for sample in first.samples] == [sample.text for sample in again.samples]
