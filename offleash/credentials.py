"""Credentials in what a user types: refused, with the way to give them, since what is typed is stored and shown.

Addresses, names of models and settings are part of run.json, of pages (which also show their command), of JSON, of
progress lines and of error messages; and other users of a machine can read the arguments of a process. A key therefore
lives in an environment variable. Where a server wants it in the query of its address, the address names the variable:
`https://host/v1?code=$MY_KEY`. `mask_credentials` is the last line of defence, for texts on their way out.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote_plus, urlencode

from offleash.errors import OffleashError

HIDDEN_PLACEHOLDER = "[hidden]"
KEY_VARIABLE = "OPENAI_API_KEY"
# Query parameters that are no secrets, and what their values look like: Azure's ?api-version=2024-10-21
PUBLIC_PARAMETERS = {"api-version", "api_version"}
_VERSION = re.compile(r"[0-9A-Za-z.-]{1,24}")
_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_USER = re.compile(r"(?<=://)[^/?#\s'\"]*@")
_QUERY = re.compile(r"(?<=\?)[^\s'\"#]+")
# name=value where the name says that the value is secret
_ASSIGNMENT = re.compile(
    r"(?i)(?<![a-z])((?:[a-z]+[-_])*(?:api[-_]?key|access[-_]?key|token|secret|password|passwd|signature|authorization)=)"
    r"(?!\$)([^\s&#;'\"]+)"
)
# Keys by the form that their makers gave them: OpenAI and those who copied it, Hugging Face, Groq, xAI, NVIDIA, Google,
# GitHub, AWS, and JSON web tokens
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}|"
    r"nvapi-[A-Za-z0-9_-]{30,}|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|"
    r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+)"
)
_SECRET_SETTING = re.compile(r"(?i)(?:^|[_-])(?:token|api[_-]?key|secret|password|passwd|credentials?|authorization)$")
_SECRET_VARIABLE = re.compile(r"(?i)(?:KEY|TOKEN|SECRET|PASSWORD)$")
MIN_SECRET_LENGTH = 8  # characters of a variable's value that is taken for a secret: shorter ones would garble messages


@dataclass(frozen=True)
class ServerAddress:
    """The address of a server in two parts: what may be shown and stored, and what is read from the environment.

    >>> server_address("https://host/v1?api-version=2&code=$MY_KEY").variables
    {'code': 'MY_KEY'}
    """

    public: str
    variables: Mapping[str, str] = field(default_factory=dict)  # query parameter: environment variable

    def secrets(self) -> list[str]:
        """The values of the variables now; an unset one is an error."""
        for parameter, variable in self.variables.items():
            if not os.environ.get(variable, "").strip():
                raise OffleashError(
                    f"The address {self.public} takes {parameter!r} from the environment variable {variable}, which is "
                    "not set. Put the key into it."
                )
        return [os.environ[variable].strip() for variable in self.variables.values()]

    def full(self) -> str:
        """The address that requests are sent to, with the values of the variables: never shown."""
        base, mark, query = self.public.partition("?")
        if not self.variables:
            return self.public
        values = dict(zip(self.variables, self.secrets(), strict=True))
        pairs = [(name, values.get(name, value)) for name, value in _parameters(query)]
        return f"{base}{mark}{urlencode(pairs)}"

    def masked(self, text: str, extra_secret: str = "") -> str:
        """A text without the secrets of the address and without `extra_secret`, escaped as in URLs and JSON or not."""
        for secret in filter(
            None, (extra_secret, *(os.environ.get(name, "").strip() for name in self.variables.values()))
        ):
            for form in (secret, quote(secret, safe=""), quote(secret), secret.replace("/", "\\/")):
                text = text.replace(form, "[key]")
        return text


def server_address(url: str, key_variable: str = KEY_VARIABLE) -> ServerAddress:
    """An address, parsed; one with a credential in it is refused, and the message does not show it."""
    public = public_url(url)
    header = f"put it into the environment variable {key_variable}, which is sent as a header"
    base, _, query = url.partition("#")[0].partition("?")
    if re.search(r"(?:://|:)[^/\s]*@", base):
        raise OffleashError(f"The address {public} contains a password. Remove it; if it is the key, {header}.")
    if "#" in url:
        raise OffleashError(f"The address {public} has a part after '#'. Remove it.")
    if _ASSIGNMENT.search(base) or _TOKEN.search(base):
        raise OffleashError(f"The address {public} contains what looks like a key. Remove it, and {header}.")
    variables: dict[str, str] = {}
    for name, value in _parameters(query):
        if variable := _VARIABLE.fullmatch(value):
            variables[name] = variable[1]
        elif name not in PUBLIC_PARAMETERS or not _VERSION.fullmatch(value) or _TOKEN.search(value):
            is_plain_name = re.fullmatch(r"[A-Za-z][A-Za-z_-]{0,23}", name) and value and not _TOKEN.search(name)
            name_text, example = (f" {name!r}", name) if is_plain_name else ("", "code")
            raise OffleashError(
                f"The address {public} has a query parameter{name_text} that may be a key, and addresses are stored "
                f"with the run. Remove it and {header}; or, if the server wants it in the address, put it into a "
                f"variable and write its name there, in single quotes: '{public}?{example}=$NAME'."
            )
    return ServerAddress(url, variables)


def refuse_credentials(name: str, settings: Mapping[str, str]) -> None:
    """Refuse a model's name or settings with a credential in them; the message does not show it."""
    after_name = name.partition("#")[2] if "://" in name else ""  # URL#MODEL?key=... instead of URL?key=...#MODEL
    key_in_name = re.search(r"[?&]|(?i:key=)", after_name)
    by_form = _TOKEN.search(name) or _ASSIGNMENT.search(name)
    if key_in_name or _USER.search(name) or (by_form and not Path(name).exists()):
        raise OffleashError(
            f"The model name {public_url(name)} contains what looks like a key, and it is stored with the run. "
            f"Remove it, and put the key into an environment variable: {KEY_VARIABLE} for a server, HF_TOKEN for the "
            "hub."
        )
    for setting, value in settings.items():
        by_name = _SECRET_SETTING.search(setting) and value.lower() not in ("true", "false", "none", "")
        if by_name or _TOKEN.search(value) or _USER.search(value):
            raise OffleashError(
                f"--set {setting}= has a value that looks like a key, and settings are stored with the run. Remove it, "
                "and put the key into an environment variable, such as HF_TOKEN for the hub."
            )


def public_url(url: str) -> str:
    """A URL without what may be secret in it: user, password, query, fragment, and words that look like keys."""
    without_credentials_part = re.sub(r"((?:://|:))[^/\s]*@", r"\1", url.partition("?")[0].partition("#")[0])
    return without_credentials(without_credentials_part)[
        :200
    ]  # not by the environment: a run stores it, and compares it when it is resumed


def mask_credentials(text: str) -> str:
    """A text on its way out, without what looks like a credential: in addresses, by form, and by the environment.

    >>> mask_credentials("--judge https://me:pw@host/v1?key=abc")
    '--judge https://host/v1?key=[hidden]'
    """
    for name, value in os.environ.items():
        if _SECRET_VARIABLE.search(name) and len(value.strip()) >= MIN_SECRET_LENGTH:
            text = text.replace(value.strip(), f"[{name}]")
    return without_credentials(text)


def without_credentials(text: str) -> str:
    """A stored text without what looks like a credential, whatever the environment holds.

    >>> without_credentials("endpoint:https://host/v1?key=abc#model")
    'endpoint:https://host/v1?key=[hidden]#model'
    """
    text = _TOKEN.sub(HIDDEN_PLACEHOLDER, _USER.sub("", text))
    text = re.sub(r"https?://[^\s'\"]*", lambda match: _QUERY.sub(_without_values, match[0]), text)
    return _ASSIGNMENT.sub(lambda match: f"{match[1]}{HIDDEN_PLACEHOLDER}", text)


def _without_values(match: re.Match[str]) -> str:
    return "&".join(
        part
        if name in PUBLIC_PARAMETERS or _VARIABLE.fullmatch(value)
        else f"{name}={HIDDEN_PLACEHOLDER}"
        if value
        else HIDDEN_PLACEHOLDER
        for part in match[0].split("&")
        for name, _, value in [part.partition("=")]
    )


def _parameters(query: str) -> list[tuple[str, str]]:
    pairs = (part.partition("=") for part in query.split("&") if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]
