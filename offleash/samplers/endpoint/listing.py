"""Which models a server has."""

import json
from collections.abc import Sequence
from dataclasses import replace

from offleash.errors import OffleashError
from offleash.samplers.endpoint.http import Cause, RefusedError, Server, TryAgainError, address, safe
from offleash.samplers.endpoint.rate_limit import Pace

LISTING = 30.0  # seconds that a list of models may take
KNOCKS = 2  # tries where nobody listens: at the start an address is likelier wrong than a server slow to come up


def only_model(server: Server, pace: Pace) -> str:
    """The name of a server's one model."""
    url, where = safe(server.url), safe(address(server.url, "models"))
    how = f"name the model: endpoint:{url}#MODEL"
    tries = 0

    def ask() -> list[str]:
        nonlocal tries
        tries += 1
        try:
            return models(server)
        except TryAgainError as again:
            if again.cause is Cause.DOWN and tries >= KNOCKS:
                raise _unreached(where, tries, again) from None
            raise

    try:
        names = pace.patiently(ask)
    except RefusedError as refused:
        if refused.code in (401, 403):
            raise server.mended(refused, "", "models") from None
        raise OffleashError(f"{where} lists no models ({refused}); {how}.") from None
    except TryAgainError as again:
        if again.cause is Cause.DOWN:
            raise _unreached(where, tries, again) from None
        raise OffleashError(
            f"{where} gave no list of models (tries: {tries}): {again}. Is the server up, and its address right? If "
            f"it has no such list, {how}."
        ) from None
    except ValueError as error:
        raise OffleashError(
            f"{where} answered with {error}. Is {url} the address of an OpenAI-compatible server, such as "
            f"http://localhost:8000/v1? If it is, and has no such list, {how}."
        ) from None
    if len(names) != 1:
        example = f", for example endpoint:{url}#{names[0]}" if names else ""
        raise OffleashError(f"{url} serves {listed(names)}; {how}{example}.")
    return names[0]


def models(server: Server) -> list[str]:
    """The names of a server's models; a ValueError where the response holds none."""
    body = replace(server, timeout=min(server.timeout, LISTING)).ask("models")
    try:
        return [str(one["id"]) for one in json.loads(body)["data"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        start = body[:1000].decode("utf-8", "replace")
        page = "a web page" if start.lstrip().startswith("<") else "a response"
        raise ValueError(f"{page} that is no list of models: {server.quoted(start)!r}") from None


def listed(names: Sequence[str]) -> str:
    """Names for a message: not all of the hundreds that a hosted server has."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(names[:20]) or "no model") + more


def _unreached(where: str, tries: int, again: TryAgainError) -> OffleashError:
    return OffleashError(
        f"{where} could not be reached (tries: {tries}): {again}. Start the server, or wait until it has loaded its "
        "model; then check the address, its port above all."
    )
