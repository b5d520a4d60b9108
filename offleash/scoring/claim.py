"""Whose scores these are: a folder of scores belongs to one model with one decoding, and another is refused.

And what can be refused of a run before a model is loaded to score it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.data.folder import RunFolder, open_run
from offleash.data.samples import SAMPLES
from offleash.data.scores import read_about, scores_folder, write_about
from offleash.data.shards import DAMAGE, check_schema, damaged
from offleash.drawing.resume import PROBE
from offleash.errors import OffleashError
from offleash.problems.prompts import prompt_hash
from offleash.samplers.sampler import Decoding
from offleash.scoring.shards import KEY, Selection, asked
from offleash.version import __version__

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

DECODED = ("temperature", "top_p", "min_p", "top_k")  # what bears on given texts
Words = Mapping[str, object]


def claim(folder: Path, name: str, model: str, decoding: Decoding, scorer: "Scorer") -> None:
    """Note who scores, or check that it is who scored before."""
    about = scorer.about
    told = {one.name: getattr(about, one.name) for one in fields(about) if one.name != "versions"}
    identity: dict[str, object] = {
        "model": model,
        "decoding": _decoded(decoding),
        "about": {**told, "settings": dict(about.settings)},
        "template": template_of(scorer),
    }
    old = read_about(folder, name)
    if old is None:
        versions = {"offleash": __version__, **about.versions}
        write_about(folder, name, {"schema": 1, **identity, "versions": versions})
    else:
        _refuse(folder, name, old, identity)


def refuse_other_words(folder: Path, name: str, model: str, decoding: Decoding) -> None:
    """Refuse early what can be told before a model is loaded."""
    old = read_about(folder, name)
    if old is not None:
        _refuse(folder, name, old, {"model": model, "decoding": _decoded(decoding)})


def refuse_unscorable(folder: Path, verifier: str | None, selection: Selection) -> None:
    """Refuse a run of which nothing could be scored, in the words of the scoring itself."""
    shards = RunFolder(folder).sample_shards()
    for shard in shards:
        check_schema(shard, SAMPLES)
        try:
            pl.scan_parquet(shard).select(*KEY, pl.col("text").str.len_bytes()).collect()
        except DAMAGE as error:
            raise damaged(shard, error) from None
    run = open_run(folder, verifier=verifier)
    if not shards:
        raise no_texts(folder)
    if selection.correct and not run.verifier:
        raise no_verdicts(run.name)
    asked(folder)


def no_texts(folder: Path) -> OffleashError:
    return OffleashError(f"{folder} keeps no texts of samples, so there is nothing to score; import with --texts.")


def no_verdicts(run: str) -> OffleashError:
    return OffleashError(f"{run} has no verdicts, so none of its samples is known to be correct; verify it.")


def template_of(scorer: "Scorer") -> str | None:
    """Hash of what a fixed prompt becomes; as a draw notes it."""
    asked = scorer.asked(PROBE)
    return None if asked is None else prompt_hash(asked)


def _decoded(decoding: Decoding) -> dict[str, object]:
    document = decoding.document()
    return {name: document[name] if name == "top_k" else float(str(document[name])) for name in DECODED}


def _refuse(folder: Path, name: str, old: Words, new: Words) -> None:
    differing = list(_differing("", {key: old.get(key) for key in new}, new))
    if differing:
        lines = "\n".join(f"  {key}: {was!r} in the scores, {now!r} now" for key, was, now in differing)
        raise OffleashError(
            f"{scores_folder(folder, name)} holds scores that were made in another way:\n{lines}\n"
            "Keep these under another name with --name NAME, or delete that folder."
        )


def _differing(prefix: str, old: Words, new: Words) -> Iterator[tuple[str, object, object]]:
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from _differing(f"{prefix}{key}: ", was, now)
        elif was != now:
            yield f"{prefix}{key}", was, now
