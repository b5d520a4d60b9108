"""A stand-in for the package vllm, as far as the worker uses it: it answers at once, and fails when it is told to.

Tests copy it to where the worker's Python imports `vllm` from; the worker and its parent are the real ones.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__version__ = "0.0.stand-in"
RequestOutputKind = SimpleNamespace(FINAL_ONLY="final")
BEGIN = 1  # the token that begins a text
MOST = 8  # samples in a batch


@dataclass
class EngineArgs:
    """The options that the engine has."""

    model: str = ""
    seed: int = 0
    enable_prefix_caching: bool = False
    max_model_len: int = 50
    tensor_parallel_size: int = 1
    hf_overrides: dict[str, Any] = field(default_factory=dict)
    template: str = ""
    trouble: str = ""  # what goes wrong


class VLLMValidationError(Exception):
    """As in vLLM 0.32, where it is no ValueError."""


class SamplingParams:
    __struct_fields__ = ("flat_logprobs",)

    def __init__(self, *, temperature: float, seed: int, max_tokens: int, **others: object) -> None:
        if temperature > 2:
            raise VLLMValidationError(f"temperature must be in [0, 2], got {temperature}.")
        self.temperature = max(temperature, 0.01) if temperature else temperature
        self.seed, self.max_tokens = seed, max_tokens


class Tokenizer:
    """A token a letter."""

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def apply_chat_template(
        self, messages: list[dict[str, str]], tokenize: bool, add_generation_prompt: bool, **variables: object
    ) -> str:
        if "untemplatable" in messages[0]["content"]:
            raise KeyError("the template knows no such thing")
        text = self.chat_template.replace("PROMPT", messages[-1]["content"])
        text = text.replace("SYSTEM", messages[0]["content"] if len(messages) > 1 else "")
        for name, value in variables.items():
            text = text.replace(name, str(value))
        return text

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [BEGIN] * add_special_tokens + [ord(letter) for letter in text]


class LLM:
    def __init__(self, model: str, **options: Any) -> None:
        print("a line on standard output, where replies must not go")
        self.options = EngineArgs(model, **options)
        if self.options.trouble == "options":
            raise ValueError(f"options {options}")
        if self.options.trouble == "core":
            print("(EngineCore pid=7) ERROR [core.py:9] ValueError: no kernel for heads of 7\n", file=sys.stderr)
            raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")
        self.core = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        if self.options.trouble == "slow start":
            time.sleep(600)
        self.llm_engine = Engine(self.options)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self.options.template)


class Engine:
    """Three samples a step, the last first; a sample's text is its prompt's tokens, its seed and who else was there."""

    def __init__(self, options: EngineArgs) -> None:
        self.options, self.steps = options, 0
        self.waiting: list[tuple[str, list[int], SamplingParams]] = []
        self.vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=MOST))

    def add_request(self, name: str, inputs: dict[str, Any], parameters: SamplingParams, lora_request: object) -> None:
        tokens = inputs["prompt_token_ids"]
        if len(tokens) > self.options.max_model_len:
            raise VLLMValidationError(
                f"The prompt (length {len(tokens)})\nis longer than {self.options.max_model_len}."
            )
        self.waiting.append((name, tokens, parameters))

    def abort_request(self, names: list[str]) -> None:
        self.waiting = [item for item in self.waiting if item[0] not in names]

    def step(self) -> list[Any]:
        self.steps += 1
        if self.options.trouble == "dies" and self.steps == 3:
            print("RuntimeError: out of pages", file=sys.stderr, flush=True)
            os._exit(3)
        if self.options.trouble == "slow":
            time.sleep(0.05)
        there = len(self.waiting)
        done = [self.waiting.pop() for _ in range(min(3, there))]
        return [self._output(name, tokens, parameters, there) for name, tokens, parameters in done]

    def _output(self, name: str, tokens: list[int], parameters: SamplingParams, there: int) -> Any:
        text = f"{','.join(map(str, tokens))} {parameters.seed} {there}"
        reason = "abort" if "~" in map(chr, tokens) else "stop" if parameters.seed % 2 else "length"
        done = SimpleNamespace(text=text, token_ids=[5] * 4, finish_reason=reason, cumulative_logprob=-1.5)
        return SimpleNamespace(request_id=name, finished=True, outputs=[done])
