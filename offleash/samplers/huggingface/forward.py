"""A causal language model of transformers in the shared-prefix engine: read prompts once, then extend many rows.

On opening, its logits are compared with the model's own; where they differ, UnsupportedError, and generate.py is used.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

from offleash.samplers.huggingface.attention import (
    ATTENTION,
    AttentionContext,
    Layer,
    Prompts,
    Slots,
    UnsupportedError,
    attending,
    register,
)

Ints = NDArray[np.int64]
# How near the engine's logits must be to the model's own, in standard deviations of the logits: well above what
# rounding makes in either precision, and well below what a wrong mask or position makes.
TOLERANCE = {torch.float32: 1e-3}
HALF_PRECISION_TOLERANCE = 5e-2
PROMPT_TOKENS = 8192  # in one forward pass over prompts


@dataclass
class Network:
    """A model whose attention is ours, and how many tokens went through it."""

    model: nn.Module
    layers: int
    device: torch.device
    bytes_per_token: int = 0  # of keys and values in all layers
    forwarded: int = 0
    slots: Slots | None = None  # of the last walk, kept for the next
    windows: dict[int, int] | None = None  # that layers ask for; recorded only while the model is checked

    def spare_slots(self, layers: list[Layer], depth: int) -> Slots:
        """The slots of the last walk, since fresh memory is slow to touch; new ones where those are much too long."""
        if self.slots is None or self.slots.tokens > 4 * max(16, depth):
            self.slots = Slots.allocate_like(layers, 0, 0)
        return self.slots

    def prefill(self, prompts: list[list[int]]) -> list[tuple[list[Layer], Tensor]]:
        """For each prompt its keys and values in every layer, and the logits of what comes next, in their order."""
        states: dict[int, tuple[list[Layer], Tensor]] = {}
        for length in sorted({len(prompt) for prompt in prompts}):  # of one length: no padding to be masked
            same_length = [index for index, prompt in enumerate(prompts) if len(prompt) == length]
            rows = max(1, PROMPT_TOKENS // length)
            for part in (same_length[start : start + rows] for start in range(0, len(same_length), rows)):
                slots = Slots.allocate(self.layers, len(part), length)
                tokens = torch.tensor([prompts[index] for index in part], device=self.device)
                logits = self.run(slots, 0, len(part), 0, tokens, None)
                for row, index in enumerate(part):
                    # views of the common buffers: prompts that are read together are freed together
                    prompt_layers = [
                        Layer(1, length, layer.keys[row : row + 1], layer.values[row : row + 1])
                        for layer in slots.layers
                    ]
                    states[index] = (prompt_layers, logits[row])
        return [states[index] for index in range(len(prompts))]

    def run(
        self,
        slots: Slots,
        start: int,
        stop: int,
        cached: int,
        tokens: Tensor,
        prompts: Prompts | None,
        every: bool = False,
    ) -> Tensor:
        """One forward pass: write keys and values of new tokens into their slots, and return logits.

        Args:
            slots: the buffers of the rows.
            start, stop: the rows that take part, which must be neighbours.
            cached: tokens that each of them holds already.
            tokens: the new ones, (rows, new).
            prompts: what each row continues; None where the slots hold everything.
            every: whether logits after each new token are wanted, or after the last alone.

        Returns:
            (rows, vocabulary), or (rows, new, vocabulary) with `every`.
        """
        position_RT = torch.arange(cached, cached + tokens.shape[1], device=self.device)[None]
        if prompts is not None:
            position_RT = position_RT + prompts.length_G[prompts.prompt_R][:, None]
        else:
            position_RT = position_RT.expand(tokens.shape[0], -1)
        self.forwarded += tokens.numel()
        with (
            torch.inference_mode(),
            attending(AttentionContext(slots.layers, start, stop, cached, prompts, self.windows)),
        ):
            keep = 0 if every else 1
            output: Tensor = self.model(
                input_ids=tokens, position_ids=position_RT, use_cache=False, logits_to_keep=keep
            ).logits
        return output if every else output[:, -1]


def open_network(model: nn.Module) -> Network:
    """Switch a model to our attention, and check on a short text that its logits stay the same.

    Raises:
        UnsupportedError: they differ, or the model calls attention in another form. It is then left as it was.
    """
    from transformers import PreTrainedModel

    assert isinstance(model, PreTrainedModel)
    text = model.config.get_text_config()
    _refuse_other_masks(text)
    device = next(model.parameters()).device
    register()
    # 0, 7, ..., 77: twelve different tokens, wherever the vocabulary has that many
    tokens = torch.arange(12, device=device)[None] * 7 % min(int(text.vocab_size), 84)
    with torch.inference_mode():
        expected = model(input_ids=tokens, use_cache=False).logits[0].float()
        previous_attention = model.config._attn_implementation
        if not model._can_set_attn_implementation():
            raise UnsupportedError("its attention implementation cannot be replaced")
        model.set_attn_implementation(ATTENTION)
        network = Network(model, int(text.num_hidden_layers), device, windows={})
        try:
            actual_logits = _self_check(network, tokens)
            _compare_windows(text, network)
        except (UnsupportedError, TypeError, KeyError, LookupError, AttributeError, RuntimeError) as error:
            model.set_attn_implementation(previous_attention)
            raise UnsupportedError(f"{type(error).__name__}: {error}") from None
    spread = float((expected - expected.mean(-1, keepdim=True)).std())
    max_difference = float((actual_logits - expected[-1]).abs().max())
    if not max_difference <= TOLERANCE.get(model.dtype, HALF_PRECISION_TOLERANCE) * max(spread, 1e-3):
        model.set_attn_implementation(previous_attention)
        raise UnsupportedError(f"its logits differ by {max_difference:.3g} when a prompt is shared")
    (layers, _), *_ = network.prefill([tokens[0, :2].tolist()])
    return Network(model, network.layers, device, Slots.allocate_like(layers, 0, 0).bytes_per_token)


def _refuse_other_masks(config: "PreTrainedConfig") -> None:
    """Refuse masks that transformers does not pass to an attention function, and positions that depend on the batch.

    A check on a short text would not notice them: they act beyond a chunk, or beyond the original context.
    """
    kinds = set(getattr(config, "layer_types", None) or ())
    if getattr(config, "attention_chunk_size", None) or kinds - {"full_attention", "sliding_attention"}:
        raise UnsupportedError(f"its layers use special attention patterns: {', '.join(sorted(kinds)) or 'chunks'}")
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
        raise UnsupportedError("its positions depend on the longest row of a batch")


def _compare_windows(config: "PreTrainedConfig", network: Network) -> None:
    """Refuse a sliding window that is configured but does not reach our function as an argument: it is in no mask that
    the function sees, and the check's text is shorter than any window."""
    window = getattr(config, "sliding_window", None)
    if not window or getattr(config, "use_sliding_window", True) is False:
        return
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * network.layers
    expected = {layer: window if kind == "sliding_attention" else 0 for layer, kind in enumerate(kinds)}
    if network.windows != expected:
        raise UnsupportedError(f"it has a window of {window} tokens that it applies outside of attention")


def _self_check(network: Network, tokens: Tensor) -> Tensor:
    """Logits after a text that is read as a prompt, then as several tokens, then one by one: every path of `attention`.

    Two prompts of different length and two rows each, so that shared prompts, padding and slots are all exercised.
    """
    (layers, first), (shorter_layers, _) = network.prefill([tokens[0, :6].tolist(), tokens[0, :5].tolist()])
    out = [first.float()]
    for prompt_layers, start in ((layers, 6), (shorter_layers, 5)):
        slots = Slots.allocate(network.layers, 2, 8)
        prompts = Prompts.of(
            prompt_layers,
            torch.tensor([start], device=network.device),
            torch.zeros(2, dtype=torch.long, device=network.device),
        )
        repeated_tokens = tokens.expand(2, -1)
        network.run(slots, 0, 2, 0, repeated_tokens[:, start : start + 3], prompts)
        for position in range(start + 3, 12):
            logits = network.run(slots, 0, 2, position - start, repeated_tokens[:, position : position + 1], prompts)
        out.append(logits[1].float())
    return torch.stack(out[1:])
