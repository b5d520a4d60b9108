"""The process that holds a vLLM engine: JSON lines in, JSON lines out. Run by path, with the Python that has vLLM.

Started by process.py, which describes the protocol; imports only the standard library and vLLM, since the rest of the
package may not be installed beside it. Every sample is a vLLM request with its own seed: with n > 1 vLLM would give the
samples the seeds s, s + 1, ..., which neighbouring chunks would share, and would keep every token of a sample until the
last of them is done.
"""

import atexit
import base64
import contextlib
import dataclasses
import difflib
import inspect
import io
import json
import os
import queue
import re
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

MAX_OPEN_SAMPLES = (
    4096  # samples of unfinished requests, whose texts the parent holds until the last sample of the request
)
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # values of max_lora_rank that vLLM accepts
GRACE = 10.0  # seconds for the engine to end by itself


class Pipe:
    """Commands from the parent, and replies to it.

    The pipe is moved away from file descriptors 0 and 1 before vLLM is imported: vLLM and what it starts print to
    standard output, and a line of theirs among the replies would break the protocol. They now print into the log.
    """

    def __init__(self) -> None:
        self.commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._input_fd, self._output_fd = os.dup(0), os.dup(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self._parent = os.getppid()
        self.ready = self.ended = False
        atexit.register(lambda: end() if self.ended else None)  # registered first, so run last: after vLLM's handlers
        threading.Thread(target=self._listen, daemon=True).start()

    def reply(self, to: int, **content: object) -> None:
        """Write one line; a pipe may take it in parts."""
        line = memoryview(json.dumps({"to": to, **content}).encode() + b"\n")
        while line:
            line = line[os.write(self._output_fd, line) :]

    def _listen(self) -> None:
        """Queue commands as they come; end this process when the parent closes the pipe, or is gone.

        A process that the parent forked may hold the pipe open after it, so the parent's id is checked as well. A
        signal at the parent's death (PR_SET_PDEATHSIG) would not do: it comes when the thread that started this process
        ends.
        """
        partial = b""
        while os.getppid() == self._parent:
            if not select.select([self._input_fd], [], [], 1.0)[0]:
                continue
            data = os.read(self._input_fd, 1 << 20)
            if not data:
                break
            *lines, partial = (partial + data).split(b"\n")
            for line in lines:
                self.commands.put(json.loads(line))
        self.ended = True
        self.commands.put(None)
        time.sleep(GRACE if self.ready else 0)  # for the engine to remove its shared memory
        end()


def end() -> None:
    """Kill what this process started, and exit; Python's resource tracker is spared, to remove shared memory and end.

    By `os._exit`: interpreter shutdown would wait for vLLM's threads.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            in_own_group = os.getpgid(int(folder.name)) == os.getpid() != int(folder.name)
            if in_own_group and b"resource_tracker" not in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
    if os.getpgrp() == os.getpid() and not Path("/proc/self").exists():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


class Engine:
    """A model in vLLM, with its chat template and its adapter."""

    def __init__(self, command: dict[str, Any]) -> None:
        import vllm

        self.version: str = vllm.__version__
        self.raw: bool = command["raw"]
        self.system: str | None = command.get("system")
        self.chat_kwargs: dict[str, Any] = command.get("chat_kwargs") or {}
        options = {"enable_prefix_caching": True, "seed": 0, **command["options"]}
        _check_options(options, vllm)
        self.adapter: Any = None
        if command["adapter"]:
            options, self.adapter = _adapter(command["adapter"], options)
        if command["revision"]:
            options["revision"] = command["revision"]
            options.setdefault("tokenizer_revision", command["revision"])
        self.llm = vllm.LLM(model=command["model"], **options)
        self.tokenizer = self.llm.get_tokenizer()
        self._check_chat_options()
        self.processor: Any = None
        self._source = (command["model"], command["revision"] or None, bool(options.get("trust_remote_code")))
        self.max_running: int = self.llm.llm_engine.vllm_config.scheduler_config.max_num_seqs

    def rendered_prompt(self, prompt: str) -> str:
        """The text that the model reads for a prompt."""
        if self.raw or not self.tokenizer.chat_template:
            return prompt
        messages = [*self._system_message(), {"role": "user", "content": prompt}]
        text = str(
            self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **self.chat_kwargs)
        )
        if self.system is not None and self.system.strip() not in text:
            raise ValueError("it ignores the system message: put the text into --prompt FILE instead")
        return text

    def _system_message(self) -> list[dict[str, str]]:
        return [] if self.system is None else [{"role": "system", "content": self.system}]

    def _check_chat_options(self) -> None:
        """Refuse what the chat template would silently ignore, as samplers/chat_template.py does for hf:."""
        if (self.system is None and not self.chat_kwargs) or self.raw:
            return
        template = self.tokenizer.chat_template
        if not template:
            raise ValueError(
                "The model has no chat template, so --system and --chat-kwargs would have no effect. Put the text into "
                "--prompt FILE instead."
            )
        text = json.dumps(template) if isinstance(template, dict) else str(template)
        for name in self.chat_kwargs:
            if not re.search(rf"\b{re.escape(name)}\b", text):
                raise ValueError(
                    f"The chat template has no variable {name!r}, so --chat-kwargs {name}= would have no effect. Check "
                    "its spelling, or leave it out."
                )

    def inputs(self, prompt: str, images: list[str]) -> dict[str, Any]:
        """A prompt as vLLM takes it, in tokens. A chat template writes its own first token: none is added then."""
        if images:
            return self._with_images(prompt, images)
        use_raw_prompt = self.raw or not self.tokenizer.chat_template
        return {
            "prompt_token_ids": self.tokenizer.encode(self.rendered_prompt(prompt), add_special_tokens=use_raw_prompt)
        }

    def _with_images(self, prompt: str, images: list[str]) -> dict[str, Any]:
        import transformers
        from PIL import Image

        if self.raw:
            raise ValueError("A prompt with images needs the model's chat template. Draw without --raw.")
        if self.processor is None:
            name, revision, trust_code = self._source
            kind: Any = transformers.AutoProcessor
            self.processor = kind.from_pretrained(name, revision=revision, trust_remote_code=trust_code)
        parts = [*({"type": "image"} for _ in images), {"type": "text", "text": prompt}]
        messages = [*self._system_message(), {"role": "user", "content": parts}]
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, **self.chat_kwargs)
        files = [io.BytesIO(base64.b64decode(image.partition(",")[2])) for image in images]
        return {"prompt": text, "multi_modal_data": {"image": [Image.open(file).convert("RGB") for file in files]}}

    def parameters(self, decoding: dict[str, Any], seed: int) -> Any:
        """vLLM's SamplingParams for one sample; a ValueError where vLLM would silently change the decoding."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        # flat: without it a token's log-probability takes 350 bytes, and a sample may have 32,768 tokens
        flat_option = {"flat_logprobs": True} if "flat_logprobs" in SamplingParams.__struct_fields__ else {}
        parameters = SamplingParams(
            **decoding, seed=seed, logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY, **flat_option
        )
        if parameters.temperature != decoding["temperature"]:  # it raises small temperatures
            raise ValueError(
                f"vLLM needs temperature 0, or {parameters.temperature} or more; found {decoding['temperature']}."
            )
        return parameters


class Call:
    """One command to sample: its requests go to the engine piece by piece, its samples come back one by one."""

    def __init__(self, engine: Engine, pipe: Pipe, command: dict[str, Any]) -> None:
        self.engine, self.pipe, self.number = engine, pipe, int(command["number"])
        self.decoding: dict[str, Any] = command["decoding"]
        self.requests: list[dict[str, Any]] = command["requests"]
        self.next = 0  # the first request that is not yet encoded
        self.waiting: list[tuple[int, int, Any]] = []  # (request, sample, inputs) of the last encoded one, reversed
        self.remaining_samples: dict[int, int] = {}  # samples to come, by open request
        self.running: set[str] = set()  # names of samples in the engine

    def step(self) -> bool:
        """Fill the engine, run it one step, and pass on the samples that ended; whether there is more to do."""
        self._add_requests()
        if self.running:
            for output in self.engine.llm.llm_engine.step():
                if output.finished:
                    self._send_output(output)
        return bool(self.running or self.waiting or self.next < len(self.requests))

    def abandon(self) -> None:
        """Stop the samples that are running; those that wait are dropped with this object."""
        self.engine.llm.llm_engine.abort_request(list(self.running))

    def _add_requests(self) -> None:
        """Keep twice as many samples in the engine as run at a time, so that its scheduler never waits for us."""
        while len(self.running) < 2 * self.engine.max_running:
            if self.waiting:
                self._add(*self.waiting.pop())
            elif not self._open():
                return

    def _open(self) -> bool:
        """Encode the next request; False where there is none, or too many samples of open requests are held already."""
        if self.next == len(self.requests):
            return False
        request, number = self.requests[self.next], self.next
        size, open_samples = (
            len(request["seeds"]),
            sum(len(self.requests[open_request]["seeds"]) for open_request in self.remaining_samples),
        )
        if open_samples and open_samples + size > max(MAX_OPEN_SAMPLES, 4 * self.engine.max_running):
            return False
        self.next += 1
        try:
            inputs = self.engine.inputs(request["prompt"], request["images"])
        except Exception as error:  # a template or an image that fails concerns its own request alone
            self.pipe.reply(self.number, request=number, error=shorten(error))
            return True
        self.remaining_samples[number] = size
        self.waiting = [(number, sample, inputs) for sample in reversed(range(size))]
        return True

    def _add(self, request: int, sample: int, inputs: Any) -> None:
        """Give one sample to the engine, under a name that `_send_output` takes apart."""
        name = f"{self.number}-{request}-{sample}"
        parameters = self.engine.parameters(self.decoding, self.requests[request]["seeds"][sample])
        try:
            self.engine.llm.llm_engine.add_request(name, inputs, parameters, lora_request=self.engine.adapter)
        except Exception as error:  # of many classes, by version: a prompt that is too long, or empty
            if type(error).__name__ == "EngineDeadError":
                raise
            self._fail(request, shorten(error))
        else:
            self.running.add(name)

    def _send_output(self, output: Any) -> None:
        """Reply with a sample that ended; a finish reason other than an end or the limit fails its request."""
        self.running.discard(output.request_id)
        request, sample = (int(part) for part in output.request_id.split("-")[1:])
        completion = output.outputs[0]
        if request not in self.remaining_samples:
            return  # the request has already failed, by another of its samples
        if completion.finish_reason not in ("stop", "length"):
            self._fail(request, f"vLLM ended a sample with {completion.finish_reason!r}")
            return
        sums = {"tokens": len(completion.token_ids), "logprob": completion.cumulative_logprob}
        self.pipe.reply(
            self.number, request=request, sample=sample, text=completion.text, finish=completion.finish_reason, **sums
        )
        self.remaining_samples[request] -= 1
        if not self.remaining_samples[request]:
            del self.remaining_samples[request]

    def _fail(self, request: int, error: str) -> None:
        """Reply with the error of a request, and stop its other samples."""
        self.pipe.reply(self.number, request=request, error=error)
        self.remaining_samples.pop(request, None)
        self.waiting = [entry for entry in self.waiting if entry[0] != request]
        names_of_request = [name for name in self.running if name.split("-")[1] == str(request)]
        self.engine.llm.llm_engine.abort_request(names_of_request)
        self.running.difference_update(names_of_request)


def serve(engine: Engine, pipe: Pipe) -> None:
    """Answer commands until the pipe is closed. Between two steps of the engine new commands are looked at, so that a
    prompt can be rendered, or a call abandoned, while samples are drawn."""
    call: Call | None = None
    while True:
        try:
            command = pipe.commands.get(block=call is None)
        except queue.Empty:
            command = {}
        if command is None:
            return
        if command.get("do") == "render":
            try:
                pipe.reply(command["number"], text=engine.rendered_prompt(command["prompt"]))
            except Exception as error:  # a chat template is a program, and may fail in any way
                reason = f"the chat template of the model failed ({type(error).__name__}: {shorten(error)})"
                pipe.reply(command["number"], refused=f"{reason}. Correct it, or draw with --raw.")
        elif command.get("do") == "sample":
            try:
                engine.parameters(command["decoding"], 0)
                call = Call(engine, pipe, command)
            except Exception as error:  # of many classes, by version: a decoding that vLLM does not accept
                pipe.reply(command["number"], refused=shorten(error))
        elif command.get("do") == "abandon":
            if call is not None and call.number == command["call"]:
                call.abandon()
                call = None
            pipe.reply(command["number"], done=True)
        if call is not None and not call.step():
            pipe.reply(call.number, done=True)
            call = None


def shorten(error: BaseException) -> str:
    """An error's message on one line; the name of its class where it has none."""
    return " ".join(str(error).split())[:1000] or type(error).__name__


def _check_options(options: dict[str, Any], vllm: Any) -> None:
    """Refuse options that this version of vLLM does not have, before a model is loaded."""
    known = {field.name for field in dataclasses.fields(vllm.EngineArgs)}
    known.update(inspect.signature(vllm.LLM.__init__).parameters)
    for name in options:
        if name not in known:
            hint = "".join(f" Did you mean {near!r}?" for near in difflib.get_close_matches(name, known, n=1))
            raise ValueError(f"vLLM {vllm.__version__} has no engine option {name!r}.{hint}")


def _adapter(name: str, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Options that let a PEFT adapter in, from a folder or the hub, and the adapter."""
    from huggingface_hub import snapshot_download
    from vllm.lora.request import LoRARequest

    folder = Path(name if Path(name).is_dir() else snapshot_download(name))
    rank = int(json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    max_rank = next((allowed for allowed in LORA_RANKS if allowed >= rank), rank)
    return {"enable_lora": True, "max_lora_rank": max_rank, **options}, LoRARequest("adapter", 1, str(folder))


def main() -> None:
    """Start the engine by the first command, then serve the others."""
    # Python puts the folder of a script first on the path: `import sampler` anywhere would then find the file beside it
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    pipe = Pipe()
    command = pipe.commands.get()
    try:
        engine = Engine(command or {})
    except Exception as error:  # whatever vLLM raises on a model or an option is for the user to read
        pipe.reply(0, **{"refused" if "vllm" in sys.modules else "missing": shorten(error)})
        return
    pipe.ready = True
    pipe.reply(0, ready=engine.version)
    serve(engine, pipe)


if __name__ == "__main__":
    main()
