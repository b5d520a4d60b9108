"""Drawing from an endpoint sampler in tests: open one, draw a chunk, look at its texts."""

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
    (one,) = sampler.sample([request], decoding)
    assert one.request == request
    return one


def texts(one: SampleChunk) -> list[str]:
    assert not one.error
    assert [sample.index for sample in one.samples] == list(
        range(one.request.first, one.request.first + one.request.size)
    )
    return [sample.text for sample in one.samples]
