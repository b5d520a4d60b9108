"""Between text and tokens: prompts in their chat template, samples as text, and stop texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from offleash.samplers.chat_template import NO_OPTIONS, ChatOptions, RenderedPrompt, chat
from offleash.samplers.huggingface.prefix_tree import FinishedSamples
from offleash.samplers.sampler import Request

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

TAIL = 4  # tokens beyond the bytes of a stop text that are decoded to find it: special tokens decode to nothing


@dataclass(frozen=True)
class PromptEncoder:
    """From a message to the tokens that the model reads."""

    tokenizer: "PreTrainedTokenizerBase"
    processor: "ProcessorMixin | None"
    raw: bool  # without a chat template
    options: ChatOptions = NO_OPTIONS

    def render(self, prompt: str) -> RenderedPrompt:
        """The prompt in its chat template, or as it is with `raw`."""
        if self.raw:
            return RenderedPrompt(prompt, has_template=False, thinking=False)
        return chat(prompt, self.tokenizer, self.options)

    def encode(self, request: Request) -> tuple[list[int], str]:
        """The tokens of a prompt and "", or none and why. With images: none and "", since the processor makes them."""
        if request.images:
            if self.processor is None:
                return [], "the problem has images, but this is not a vision model"
            return [], "the problem has images, which need a chat template: leave out --raw" if self.raw else ""
        rendered = self.render(request.prompt)
        # a template writes its own first token: another would be read twice
        tokens: list[int] = self.tokenizer.encode(rendered.text, add_special_tokens=not rendered.has_template)
        if not tokens and self.tokenizer.bos_token_id is not None:
            tokens = [int(self.tokenizer.bos_token_id)]
        return tokens, "" if tokens else "the prompt is empty, and the model has no BOS token"


def texts_of(tokenizer: "PreTrainedTokenizerBase", finished: FinishedSamples, stop: Sequence[str]) -> list[str]:
    """The texts of the distinct sequences, cut where a stop text begins."""
    texts = decode(tokenizer, finished.token_ET[:, : finished.text_length].tolist())
    return [cut_at_stop(text, stop) for text in texts] if stop else texts


def decode(tokenizer: "PreTrainedTokenizerBase", rows: list[list[int]]) -> list[str]:
    """Texts of rows of tokens, without special tokens; by the tokenizer's own library where it is one of those."""
    if tokenizer.is_fast:  # the same, without a Python loop over every token
        texts: list[str] = tokenizer.backend_tokenizer.decode_batch(rows, skip_special_tokens=True)
        return texts
    return list(tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """A text up to the first of the stop texts, which is no part of it."""
    return text[: min([position for position in map(text.find, stop) if position >= 0], default=len(text))]


def stop_finder(
    tokenizer: "PreTrainedTokenizerBase", stop: Sequence[str]
) -> Callable[[NDArray[np.int32]], NDArray[np.bool_]]:
    """A function that says which rows of tokens have just come to a stop text.

    It decodes the last tokens of each row only: a stop text that ended earlier would have stopped the row then.
    """
    longest = max(len(text.encode()) for text in stop)  # bytes, since a token may be a single byte

    def stopped(token_RT: NDArray[np.int32]) -> NDArray[np.bool_]:
        tails = decode(tokenizer, token_RT[:, -(longest + TAIL) :].tolist())
        return np.array([any(text in tail for text in stop) for tail in tails], np.bool_)

    return stopped
