"""Which models a server has."""

import json
from collections.abc import Sequence
from dataclasses import replace

from offleash.errors import OffleashError
from offleash.samplers.http import RefusedError, Server, TryAgainError, address, safe
from offleash.samplers.pace import Pace

LISTING = 30.0  # seconds that a list of models may take


def only_model(server: Server, pace: Pace) -> str:
    """The name of a server's one model."""
    url = safe(server.url)
    how = f"name the model: endpoint:{url}#MODEL"
    try:
        names = pace.patiently(lambda: models(server))
    except RefusedError as refused:
        if refused.code in (401, 403):
            raise server.mended(refused, "", "models") from None
        raise OffleashError(f"{safe(address(server.url, 'models'))} lists no models ({refused}); {how}.") from None
    except TryAgainError as again:
        raise OffleashError(
            f"{url} gave no list of its models in {pace.tries} tries: {again}. Is the server up, and its address "
            f"right? If it has no such list, {how}."
        ) from None
    if len(names) != 1:
        example = f", for example endpoint:{url}#{names[0]}" if names else ""
        raise OffleashError(f"{url} serves {listed(names)}; {how}{example}.")
    return names[0]


def models(server: Server) -> list[str]:
    """The names of a server's models."""
    body = replace(server, timeout=min(server.timeout, LISTING)).ask("models")
    try:
        return [str(one["id"]) for one in json.loads(body)["data"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        start = server.quoted(body[:1000].decode("utf-8", "replace"))
        raise TryAgainError(f"the response is no list of models: {start!r}") from None


def listed(names: Sequence[str]) -> str:
    """Names for a message: not all of the hundreds that a hosted server has."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(names[:20]) or "no model") + more
