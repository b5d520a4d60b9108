"""Drawing from an endpoint sampler in tests: open chunk, draw a chunk, look at its texts."""

from typing import Any

from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import Request, SampleChunk, Sampler, SamplingParams
from tests.samplers.endpoint.server import Served

PLAIN = SamplingParams(max_tokens=10)


def opened(server: Served, raw: bool = False, model: str = "#m", **settings: object) -> Sampler:
    given = {"timeout": "10", "tries": "3", **{name: str(value) for name, value in settings.items()}}
    return open_sampler(model_of(f"endpoint:{server.url}{model}", given, raw))


def wanted(size: int = 4, first: int = 0, problem: str = "p", **other: Any) -> Request:
    return Request(problem, f"What is {problem}?", first, size, seed=7, **other)


def drawn(sampler: Sampler, request: Request, decoding: SamplingParams = PLAIN) -> SampleChunk:
    (chunk,) = sampler.sample([request], decoding)
    assert chunk.request == request
    return chunk


def texts(chunk: SampleChunk) -> list[str]:
    assert not chunk.error
    assert [sample.index for sample in chunk.samples] == list(
        range(chunk.request.first, chunk.request.first + chunk.request.size)
    )
    return [sample.text for sample in chunk.samples]
