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
    NAME,
    AttentionContext,
    Layer,
    Prompts,
    Slots,
    UnsupportedError,
    attending,
    register,
)

Ints = NDArray[np.int64]
AGREE = {torch.float32: 1e-3}  # how near the engine's logits must be to the model's own, in spreads of them
NEAR = 5e-2  # the same in half precision


@dataclass
class Network:
    """The model, and how many tokens went through it."""

    model: nn.Module
    layers: int
    device: torch.device
    bytes_a_token: int = 0  # of keys and values in all layers
    forwarded: int = 0
    slots: Slots | None = None  # of the last walk, to be used again
    windows: dict[int, int] | None = None  # that layers ask for, while it is wanted

    def spare_slots(self, layers: list[Layer], depth: int) -> Slots:
        """The slots of the last walk, since fresh memory is slow to touch; new ones where those are much too long."""
        if self.slots is None or self.slots.tokens > 4 * max(16, depth):
            self.slots = Slots.like(layers, 0, 0)
        return self.slots

    def read(self, prompts: list[list[int]]) -> list[tuple[list[Layer], Tensor]]:
        """For each prompt its keys and values in every layer, and the logits of what comes next."""
        found: list[tuple[list[Layer], Tensor] | None] = [None] * len(prompts)
        for length in sorted({len(prompt) for prompt in prompts}):  # of one length: no padding to be masked
            places = [place for place, prompt in enumerate(prompts) if len(prompt) == length]
            most = max(1, 8192 // length)
            for part in (places[start : start + most] for start in range(0, len(places), most)):
                slots = Slots.of(self.layers, len(part), length)
                tokens = torch.tensor([prompts[place] for place in part], device=self.device)
                logits = self.run(slots, 0, len(part), 0, tokens, None)
                for row, place in enumerate(part):
                    own = [Layer(1, length, one.keys[row : row + 1], one.values[row : row + 1]) for one in slots.layers]
                    found[place] = (own, logits[row])
        return [one for one in found if one is not None]

    def run(
        self,
        slots: Slots,
        start: int,
        stop: int,
        have: int,
        tokens: Tensor,
        prompts: Prompts | None,
        every: bool = False,
    ) -> Tensor:
        """Logits after new tokens (rows, new) of rows [start, stop) that hold `have`; of every new token if wanted."""
        place = torch.arange(have, have + tokens.shape[1], device=self.device)[None]
        if prompts is not None:
            place = place + prompts.length_G[prompts.prompt_R][:, None]
        else:
            place = place.expand(tokens.shape[0], -1)
        self.forwarded += tokens.numel()
        with (
            torch.inference_mode(),
            attending(AttentionContext(slots.layers, start, stop, have, prompts, self.windows)),
        ):
            keep = 0 if every else 1
            out: Tensor = self.model(input_ids=tokens, position_ids=place, use_cache=False, logits_to_keep=keep).logits
        return out if every else out[:, -1]


def open_network(model: nn.Module) -> Network:
    """The engine's view of a model; UnsupportedError where it does not reproduce the model's own logits."""
    from transformers import PreTrainedModel

    assert isinstance(model, PreTrainedModel)
    text = model.config.get_text_config()
    _refuse_other_masks(text)
    device = next(model.parameters()).device
    register()
    tokens = torch.arange(12, device=device)[None] * 7 % min(int(text.vocab_size), 84)
    with torch.inference_mode():
        expected = model(input_ids=tokens, use_cache=False).logits[0].float()
        before = model.config._attn_implementation
        if not model._can_set_attn_implementation():
            raise UnsupportedError("its attention is its own, not one that can be chosen")
        model.set_attn_implementation(NAME)
        net = Network(model, int(text.num_hidden_layers), device, windows={})
        try:
            found = _self_check(net, tokens)
            _compare_windows(text, net)
        except (UnsupportedError, TypeError, KeyError, LookupError, AttributeError, RuntimeError) as error:
            model.set_attn_implementation(before)
            raise UnsupportedError(f"{type(error).__name__}: {error}") from None
    spread = float((expected - expected.mean(-1, keepdim=True)).std())
    worst = float((found - expected[-1]).abs().max())
    if not worst <= AGREE.get(model.dtype, NEAR) * max(spread, 1e-3):
        model.set_attn_implementation(before)
        raise UnsupportedError(f"its logits differ by {worst:.3g} when a prompt is shared")
    (layers, _), *_ = net.read([tokens[0, :2].tolist()])
    return Network(model, net.layers, device, Slots.like(layers, 0, 0).bytes_a_token)


def _refuse_other_masks(config: "PreTrainedConfig") -> None:
    """Masks and positions that transformers does not tell a function of attention, or that depend on the batch."""
    kinds = set(getattr(config, "layer_types", None) or ())
    if getattr(config, "attention_chunk_size", None) or kinds - {"full_attention", "sliding_attention"}:
        raise UnsupportedError(f"its layers attend in ways of their own: {', '.join(sorted(kinds)) or 'chunks'}")
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
        raise UnsupportedError("its positions depend on the longest row of a batch")


def _compare_windows(config: "PreTrainedConfig", net: Network) -> None:
    """A window that stands in the configuration must reach our function: it is not in any mask that it sees."""
    window = getattr(config, "sliding_window", None)
    if not window or getattr(config, "use_sliding_window", True) is False:
        return
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * net.layers
    expected = {layer: window if kind == "sliding_attention" else 0 for layer, kind in enumerate(kinds)}
    if net.windows != expected:
        raise UnsupportedError(f"it has a window of {window} tokens that it applies in a way of its own")


def _self_check(net: Network, tokens: Tensor) -> Tensor:
    """Logits of the last tokens of a text, read as a prompt and then in steps, as every kind of call will read them."""
    (layers, first), (others, _) = net.read([tokens[0, :6].tolist(), tokens[0, :5].tolist()])
    out = [first.float()]
    for shared, start in ((layers, 6), (others, 5)):
        slots = Slots.of(net.layers, 2, 8)
        prompts = Prompts.of(
            shared, torch.tensor([start], device=net.device), torch.zeros(2, dtype=torch.long, device=net.device)
        )
        two = tokens.expand(2, -1)
        net.run(slots, 0, 2, 0, two[:, start : start + 3], prompts)
        for place in range(start + 3, 12):
            logits = net.run(slots, 0, 2, place - start, two[:, place : place + 1], prompts)
        out.append(logits[1].float())
    return torch.stack(out[1:])
