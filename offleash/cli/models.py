"""Which model, how it is run, how tokens are drawn."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    from offleash.samplers.models import Model
    from offleash.samplers.sampler import Decoding

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="hf:PATH@REVISION+ADAPTER, vllm:PATH, endpoint:URL or scripted:FILE.")
]
K = Annotated[str, typer.Option("-k", metavar="K", help="Samples a problem; paper: the paper's budget.")]
Until = Annotated[int, typer.Option(metavar="M", help="Stop a problem at its M-th success; 0: draw all.")]
Seed = Annotated[int, typer.Option(metavar="S", help="The same seed gives the same samples.")]


@dataclass(frozen=True)
class Opened:
    """How models are opened."""

    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the engine, e.g. dtype=bfloat16. Repeatable."),
    ] = None
    raw: Annotated[
        bool, typer.Option("--raw", help="Give prompts as they stand, without the model's chat template.")
    ] = False

    def named(self) -> dict[str, str]:
        """What --set says: names to values."""
        settings: dict[str, str] = {}
        for pair in self.settings or []:
            name, equals, value = pair.partition("=")
            if not equals or not name:
                raise OffleashError(f"--set takes NAME=VALUE, found {pair!r}; for example --set dtype=bfloat16.")
            if name in settings:
                raise OffleashError(f"--set {name} is given twice: {settings[name]!r} and {value!r}; leave one out.")
            settings[name] = value
        return settings

    def model(self, name: str) -> "Model":
        """The model that the command line names."""
        from offleash.samplers.models import model_of

        return model_of(name, self.named(), self.raw)


@dataclass(frozen=True)
class Decoded:
    """How tokens are drawn: a decoding by name, with what is said otherwise."""

    decoding: Annotated[
        str,
        typer.Option(
            "--decoding", metavar="NAME", help="plain: the model's own distribution; paper: 0.6, 0.95, 32768."
        ),
    ] = "plain"
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Instead of the decoding's.")] = None
    top_p: Annotated[float | None, typer.Option("--top-p", metavar="P", help="Likewise.")] = None
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="N", help="Likewise; 0: all tokens.")] = None
    min_p: Annotated[
        float | None, typer.Option("--min-p", metavar="P", help="Likewise; a share of the likeliest token.")
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Likewise; a longer sample is cut.")
    ] = None
    stop: Annotated[list[str] | None, typer.Option("--stop", metavar="TEXT", help="Ends a sample. Repeatable.")] = None

    def way(self) -> "Decoding":
        """The decoding."""
        from dataclasses import replace

        from offleash.samplers.sampler import DECODINGS

        if self.decoding not in DECODINGS:
            raise unknown("decoding", self.decoding, DECODINGS)
        chosen = DECODINGS[self.decoding]
        return replace(
            chosen,
            temperature=chosen.temperature if self.temperature is None else self.temperature,
            top_p=chosen.top_p if self.top_p is None else self.top_p,
            top_k=chosen.top_k if self.top_k is None else self.top_k,
            min_p=chosen.min_p if self.min_p is None else self.min_p,
            max_tokens=chosen.max_tokens if self.max_tokens is None else self.max_tokens,
            stop=chosen.stop if self.stop is None else tuple(self.stop),
        )
