"""The `vllm:` sampler: vLLM's offline engine in a process of its own, with its own Python environment if needed.

Every sample has its own seed, from its run, problem and index, so a chunk gives the same samples whatever is drawn
beside it, as far as vLLM computes the same logits: the shape of a batch may change their last bits, and with them, now
and then, a token. Log-probabilities are those of the model's own distribution (vLLM's raw_logprobs).
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from offleash.errors import OffleashError
from offleash.samplers.registry import Model, fingerprint
from offleash.samplers.sampler import About, Request, Sample, SampleChunk, SamplingParams
from offleash.samplers.seeds import sample_seeds
from offleash.samplers.vllm.process import Reply, WorkerProcess

START_SECONDS = "1800"  # seconds for the engine to load a model
OWN_SETTINGS = {"python", "start", "cpu_kvcache_space"}  # settings that are no options of the engine
RESERVED_OPTIONS = {  # options that are set elsewhere, or that would change what a sample is
    "model": "name it after the prefix, vllm:PATH",
    "revision": "write vllm:NAME@REVISION",
    "enable_lora": "write vllm:PATH+ADAPTER",
    "logprobs_mode": "log-probabilities are stored under the model's own distribution, raw_logprobs",
    "skip_tokenizer_init": "samples are stored as text",
}
PLACEMENT_OPTIONS = {  # where and how fast a model runs, not which model: free to change when a run is resumed
    *("tensor_parallel_size", "pipeline_parallel_size", "distributed_executor_backend", "gpu_memory_utilization"),
    *("kv_cache_memory_bytes", "swap_space", "cpu_offload_gb", "max_num_seqs", "max_num_batched_tokens"),
    *("enforce_eager", "enable_prefix_caching", "disable_log_stats", "download_dir"),
}


def open_sampler(model: Model) -> "VllmSampler":
    """Start the engine. Settings: python, start (seconds), cpu_kvcache_space (GiB), and every option of the engine."""
    path = _path(model.name, "config.json", "params.json")
    adapter = _path(model.adapter, "adapter_config.json") if model.adapter else ""
    for name, step in RESERVED_OPTIONS.items():
        if name in model.settings:
            raise OffleashError(f"{name} cannot be set for vllm: {step}.")
    seconds = _number("start", model.settings.get("start", START_SECONDS))
    environment = _environment(model)
    options = {name: _value(text) for name, text in model.settings.items() if name not in OWN_SETTINGS}
    process = WorkerProcess(_python(model), environment)
    command = {"model": path, "revision": model.revision, "adapter": adapter, "raw": model.raw, "options": options}
    command |= {"system": model.chat.system, "chat_kwargs": dict(model.chat.kwargs)}
    try:
        version = process.start(command, seconds)
    except BaseException:
        process.close()
        raise
    return VllmSampler(model, process, version)


class VllmSampler:
    """A model in vLLM."""

    concurrency = 1  # the engine batches by itself
    batch_size = 16384  # enough that it seldom runs empty
    forwarded = None  # vLLM does not say

    def __init__(self, model: Model, process: WorkerProcess, version: str) -> None:
        self.process = process
        self.about = About(
            sampler="vllm",
            model=model.name,
            revision=model.revision,
            adapter=model.adapter,
            fingerprint=" ".join(filter(None, map(fingerprint, filter(None, (model.name, model.adapter))))),
            raw=model.raw,
            settings={
                name: text for name, text in model.settings.items() if name not in OWN_SETTINGS | PLACEMENT_OPTIONS
            },
            versions={"vllm": version},
            system=model.chat.system,
            chat_kwargs=model.chat.kwargs or None,
        )

    def rendered_prompt(self, prompt: str) -> str | None:
        """The prompt in the model's chat template, rendered by the worker, which has the tokenizer."""
        number = self.process.send({"do": "render", "prompt": prompt})
        text = str(self.process.receive(number)["text"])
        self.process.forget(number)
        return text

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        """Every request once, as soon as it is complete. Only the samples of unfinished requests are in memory."""
        _check(decoding)
        # 63 bits of each seed: vLLM reads signed numbers
        seeds = [
            [int(seed) >> 1 for seed in sample_seeds(request.seed, request.first, request.size)] for request in requests
        ]
        commands = [
            {"prompt": request.prompt, "images": list(request.images), "seeds": request_seeds}
            for request, request_seeds in zip(requests, seeds, strict=True)
        ]
        call = self.process.send({"do": "sample", "decoding": decoding.document(), "requests": commands})
        all_received = False
        try:
            yield from self._replies(call, requests, seeds, decoding)
            all_received = True
        except (GeneratorExit, OffleashError):  # the caller has enough, or the call failed: the engine can be used on
            raise
        except BaseException:  # Ctrl-C: the user waits for the end, not for the samples
            self.close()
            raise
        finally:
            if all_received:
                self.process.forget(call)
            else:
                self.process.abandon(call)

    def forget(self, problem: str) -> None:
        """Nothing is kept for a problem but vLLM's cache of prefixes, which drops what was used longest ago."""

    def close(self) -> None:
        """End the engine's process."""
        self.process.close()

    def _replies(
        self, call: int, requests: Sequence[Request], seeds: Sequence[Sequence[int]], decoding: SamplingParams
    ) -> Iterator[SampleChunk]:
        """The worker's samples, which come in any order, put together by request."""
        parts: dict[int, dict[int, Sample]] = {}
        while not (reply := self.process.receive(call)).get("done"):
            number = int(reply["request"])
            request = requests[number]
            if "error" in reply:
                parts.pop(number, None)
                yield SampleChunk(request, error=str(reply["error"]))
                continue
            index = int(reply["sample"])
            samples = parts.setdefault(number, {})
            samples[index] = _sample(reply, request.first + index, seeds[number][index], decoding)
            if len(samples) == request.size:
                del parts[number]
                yield SampleChunk(request, tuple(samples[index] for index in range(request.size)))


def _path(name: str, *marker_files: str) -> str:
    """The path of a folder that holds one of the files `marker_files`, or a name on the hub as it is."""
    path = Path(name).expanduser()
    if not path.exists():
        if name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise OffleashError(
                f"There is no file or folder {name}. Give the folder of a saved model, or a name on the hub."
            )
        return name
    if path.is_dir() and not any((path / marker).exists() for marker in marker_files):
        hint = " It is an adapter: write vllm:BASE+ADAPTER." if (path / "adapter_config.json").exists() else ""
        raise OffleashError(f"{name} has no {marker_files[0]}. Give the folder of a saved model.{hint}")
    return str(path)


def _python(model: Model) -> str:
    """The interpreter that has vLLM: named in the settings or the environment, else this one."""
    python = model.settings.get("python") or os.environ.get("OFFLEASH_VLLM_PYTHON") or sys.executable
    return str(Path(python).expanduser().absolute()) if os.sep in python else python


def _environment(model: Model) -> dict[str, str]:
    """The worker's environment: this one, and what vLLM needs in it."""
    own_variables = {
        "PYTHONSAFEPATH": "1",  # the worker's folder has modules of the names vllm and http
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # the worker has a thread, and a fork would copy its locks
        "VLLM_NO_USAGE_STATS": "1",
    }
    space = model.settings.get("cpu_kvcache_space")
    requested_variables = {"VLLM_CPU_KVCACHE_SPACE": str(int(_number("cpu_kvcache_space", space)))} if space else {}
    return {**own_variables, **os.environ, **requested_variables}


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise OffleashError(f"{name} must be a number above 0; found {text!r}.")
    return number


def _value(text: str) -> object:
    """A setting as vLLM takes it: a number, true, false, none, JSON, else the text itself."""
    constants: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _check(decoding: SamplingParams) -> None:
    """Refuse a decoding that vLLM would draw from another distribution than the one stored with the run."""
    if decoding.min_p and decoding.top_p < 1:
        raise OffleashError(
            f"vLLM applies min-p before top-p, which gives a different distribution from min_p={decoding.min_p:g} "
            f"after top_p={decoding.top_p:g}. Set one of the two, or draw with hf:."
        )


def _sample(reply: Reply, index: int, seed: int, decoding: SamplingParams) -> Sample:
    logprob = float(reply["logprob"])
    greedy_logprob = 0.0 if decoding.temperature == 0 else None  # the most probable token, whatever its probability
    return Sample(
        index=index,
        text=str(reply["text"]),
        tokens=int(reply["tokens"]),
        finish=str(reply["finish"]),
        seed=seed,
        logprob_raw=logprob,
        logprob_sampled=logprob if decoding.is_plain else greedy_logprob,
    )
