"""Options that every verb drawing from a model shares: which model, how it is run, how tokens are drawn."""

from typing import TYPE_CHECKING, Annotated

import typer

from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    from offleash.samplers.registry import Model
    from offleash.samplers.sampler import Decoding

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="hf:PATH@REVISION+ADAPTER, vllm:PATH, endpoint:URL or scripted:FILE.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An option of the engine, e.g. dtype=bfloat16. Repeatable."),
]
Raw = Annotated[bool, typer.Option("--raw", help="Give prompts as they stand, without the model's chat template.")]
DecodingName = Annotated[
    str,
    typer.Option("--decoding", metavar="NAME", help="plain: the model's own distribution; paper: 0.6, 0.95, 32768."),
]
Temperature = Annotated[float | None, typer.Option(metavar="T", help="Instead of the decoding's.")]
TopP = Annotated[float | None, typer.Option("--top-p", metavar="P", help="Likewise.")]
TopK = Annotated[int | None, typer.Option("--top-k", metavar="N", help="Likewise; 0: all tokens.")]
MinP = Annotated[float | None, typer.Option("--min-p", metavar="P", help="Likewise; a share of the likeliest token.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", metavar="N", help="Likewise; a longer sample is cut.")]
Stop = Annotated[list[str] | None, typer.Option("--stop", metavar="TEXT", help="Ends a sample. Repeatable.")]


def model(name: str, settings: list[str] | None, raw: bool) -> "Model":
    """The model that the command line names."""
    from offleash.samplers.registry import model_of

    return model_of(name, named_settings(settings or []), raw)


def decoding(
    name: str = "plain",
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    max_tokens: int | None = None,
    stop: list[str] | None = None,
) -> "Decoding":
    """A decoding by name, with what the command line says otherwise."""
    from dataclasses import replace

    from offleash.samplers.sampler import DECODINGS

    if name not in DECODINGS:
        raise unknown("decoding", name, DECODINGS)
    chosen = DECODINGS[name]
    return replace(
        chosen,
        temperature=chosen.temperature if temperature is None else temperature,
        top_p=chosen.top_p if top_p is None else top_p,
        top_k=chosen.top_k if top_k is None else top_k,
        min_p=chosen.min_p if min_p is None else min_p,
        max_tokens=chosen.max_tokens if max_tokens is None else max_tokens,
        stop=chosen.stop if stop is None else tuple(stop),
    )


def named_settings(pairs: list[str]) -> dict[str, str]:
    """What --set says: names to values."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise OffleashError(f"--set takes NAME=VALUE, found {pair!r}; for example --set dtype=bfloat16.")
        if name in settings:
            raise OffleashError(f"--set {name} is given twice: {settings[name]!r} and {value!r}; leave one out.")
        settings[name] = value
    return settings
