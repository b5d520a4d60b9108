"""Certificates whose numbers are written down, and tiny models that answer in boxes, for tests of certificates."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.certificates import COMPLETIONS, CertificateFolder, CertificateSettings
from offleash.data.run import Origin
from offleash.data.tables import VERDICTS, as_problems, question_hash

BOXES = ("\\boxed{1}", "\\boxed{2}", "a", "b", "<end>", "<pad>", "<unk>")
QUESTIONS = ("a b", "b a", "a a a", "b")

Written = tuple[tuple[int, ...], str, float]  # tokens, verdict, probability


def problems(count: int = len(QUESTIONS)) -> pl.DataFrame:
    """Questions in the words of the tiny models; the answers are 1 and 2 in turn."""
    return as_problems(
        pl.DataFrame(
            {
                "problem": [f"p{i}" for i in range(count)],
                "question": QUESTIONS[:count],
                "hash": [question_hash(question) for question in QUESTIONS[:count]],
                "gold": [str(1 + i % 2) for i in range(count)],
                "verifier": ["string"] * count,
            }
        )
    )


def problems_file(file: Path) -> Path:
    rows = problems().select("problem", "question", "gold", "verifier").iter_rows(named=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def origin(model: str = "hf:base", **decoding: object) -> Origin:
    way = {"temperature": 1.0, "max_tokens": 8, **decoding}
    return Origin(model, {"sampler": "hf"}, way, 0, "", {}, False, "", None)


def certificate(
    folder: Path,
    written: Mapping[str, Sequence[Written]],
    unexplored: Mapping[str, float],
    epsilon: float = 0.01,
    vocabulary: str = "v",
    benchmarks: Mapping[str, str] | None = None,
    verifier: str = "string@1",
    **decoding: object,
) -> Path:
    """A certificate folder with these completions; a problem without a word on what is unexplored is not certified."""
    folder.mkdir(parents=True)
    names = list(written)
    table = as_problems(
        pl.DataFrame({"problem": names, "benchmark": [(benchmarks or {}).get(name, "one") for name in names]})
    )
    here = CertificateFolder(folder)
    here.begin(folder.name, table, CertificateSettings(epsilon, vocabulary, origin(f"hf:{folder.name}", **decoding)))
    for place, (name, some) in enumerate(written.items()):
        if name not in unexplored:
            continue
        index = range(len(some))
        completions = pl.DataFrame(
            {
                "problem": [name] * len(some),
                "index": index,
                "text": ["text" for _ in some],
                "token_ids": [list(tokens) for tokens, _, _ in some],
                "finish": ["stop"] * len(some),
                "logprob_sampled": [float(np.log(p)) for _, _, p in some],
                "logprob_raw": [float(np.log(p)) for _, _, p in some],
            },
            schema=COMPLETIONS,
        )
        facts = {"completions": len(some), "unexplored": unexplored[name], "prefixes": 5, "deepest": 2, "forwarded": 9}
        here.write(f"{place:06d}.parquet", completions, pl.DataFrame({"problem": [name], **facts}))
        verdicts = completions.select("problem", "index").with_columns(
            verdict=pl.Series([verdict for _, verdict, _ in some], dtype=VERDICTS["verdict"])
        )
        here.write_verdicts(verifier, f"{place:06d}.parquet", verdicts)
    return folder
