"""Which verdicts of a run count: those of the verifier that is named, in its newest version.

What a folder of verdicts was made with is its record: the identities in its about.json, such as `math@1+0.9.0`. A
folder of one verifier bears that identity as its name; one of several is `mixed@` and a hash of them, whose order says
nothing. Where the records do not decide, nobody guesses: the folders are listed and the user chooses.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from offleash.data.verdict import STORED_VERIFIER_NAMES
from offleash.errors import OffleashError, unknown

ABOUT = "about.json"  # beside the shards of verdicts: what they were made with, by the verifier's identity
MIXED = "mixed"
_REVISION = re.compile(r"\d{1,9}")
_RELEASE = re.compile(r"\d{1,9}(\.\d{1,9})*((a|b|rc|\.dev|\.post)\d{1,9})*")  # of a library: 0.9.0, 1.0rc1


@dataclass(frozen=True)
class VerdictChoice:
    """The folder of verdicts that counts, and other versions of the same verifier that do not."""

    name: str | None  # None: there are no verdicts
    passed_over: tuple[str, ...] = ()


def folder_name(verifier: str) -> str:
    """A verifier's name as a folder's: lm-eval's 'exact_match,strict' would not do on every system."""
    return re.sub(r"[^A-Za-z0-9_.@+-]+", "-", verifier).strip("-.") or "verifier"


def verdicts_name(identities: Iterable[str]) -> str:
    """The name that verdicts are stored under: the verifier's identity, or `mixed@` and a hash of several.

    >>> verdicts_name(["math@1+0.9.0"]), verdicts_name(["math@1+0.9.0", "choice@1"])
    ('math@1+0.9.0', 'mixed@6b27f622')
    """
    distinct = sorted(set(identities))
    if len(distinct) == 1:
        return distinct[0]
    return f"{MIXED}@{blake2b(' '.join(distinct).encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"


def choose_verdicts(run: Path, folder: Path, available: Sequence[str], requested: str | None) -> VerdictChoice:
    """The verdicts to read.

    Args:
        run: the run, for messages.
        folder: where its folders of verdicts are.
        available: their names.
        requested: a verifier, with or without its version; None: the only one there is.
    """
    names = {name.partition("@")[0] for name in available if "@" in name}
    if requested is not None:
        requested_folder = folder_name(STORED_VERIFIER_NAMES.get(requested, requested))
        versions = (
            [requested_folder]
            if requested_folder in available
            else [name for name in available if name.startswith(f"{requested_folder}@")]
        )
        if not versions:
            raise unknown("verifier", requested, names.union(available), f" with verdicts in {run}")
    else:
        versions = list(available)
        if len(available) > 1 and (len(names) > 1 or not all("@" in name for name in available)):
            raise OffleashError(
                f"{run} has verdicts from several verifiers: {', '.join(available)}. Choose one with --verdicts."
            )
    if len(versions) < 2:
        return VerdictChoice(versions[0] if versions else None)
    newest = _newest_folder({name: recorded_versions(folder / name) for name in versions})
    if newest is None:
        raise OffleashError(
            f"{run} has verdicts from several versions of a verifier, but it is not recorded which is the newest: "
            f"{', '.join(versions)}. Choose one with --verdicts NAME."
        )
    return VerdictChoice(newest, tuple(name for name in versions if name != newest))


def recorded_versions(folder: Path) -> Mapping[str, str] | None:
    """Versions by verifier that the verdicts of a folder were made with; None where no record says so.

    The record must be the folder's own: its identities give the folder's name. Without one, the name of a folder of
    one verifier is its identity.
    """
    try:
        document = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        identities = list(document) if isinstance(document, dict) else []
    except FileNotFoundError:
        identities = [] if folder.name.startswith(f"{MIXED}@") else [folder.name]
    except (OSError, ValueError, RecursionError):
        identities = []
    if not identities or folder_name(verdicts_name(identities)) != folder.name:
        return None
    pairs = (identity.partition("@") for identity in identities)
    return {name: version for name, _, version in pairs}


def _newest_folder(records: Mapping[str, Mapping[str, str] | None]) -> str | None:
    """The folder that is newer than every other; None where that is not known."""
    for name, record in records.items():
        others = [other for key, other in records.items() if key != name]
        if all(_is_newer(record, other) for other in others):
            return name
    return None


def _is_newer(record: Mapping[str, str] | None, other: Mapping[str, str] | None) -> bool:
    """Whether the same verifiers are all at least as new, and some newer."""
    if record is None or other is None or record.keys() != other.keys():
        return False
    comparisons = [_compare_versions(version, other[name]) for name, version in record.items()]
    return None not in comparisons and 1 in comparisons and -1 not in comparisons


def _compare_versions(version: str, other: str) -> int | None:
    """1, 0 or -1 where a version is newer, equal or older; None where it is not a version, such as a model's name."""
    if version == other:
        return 0
    (revision, _, library), (other_revision, _, other_library) = version.partition("+"), other.partition("+")
    if not (_REVISION.fullmatch(revision) and _REVISION.fullmatch(other_revision)):
        return None
    if library != other_library and not all(_RELEASE.fullmatch(text) for text in (library, other_library) if text):
        return None
    keys = [(int(number), _sort_key(text)) for number, text in ((revision, library), (other_revision, other_library))]
    return 0 if keys[0] == keys[1] else 1 if keys[0] > keys[1] else -1


def _sort_key(library: str) -> list[tuple[int, int, str]]:
    """A key by which releases sort: numbers by size (10 after 9), a pre-release before its release, none first."""
    words = re.findall(r"\d+|[A-Za-z]+", library)
    if not words:
        return []
    numbers = ((1, int(word), "") if word.isdigit() else (1 if word == "post" else -1, 0, word) for word in words)
    return [*numbers, (0, 0, "")]
