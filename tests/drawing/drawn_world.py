"""Problems and scripted models whose right answers are written down, for tests of drawing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from offleash.data.tables import as_problems, question_hash
from offleash.drawing.draw import DrawRequest, DrawSummary, draw
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import Sampler, SamplingParams
from offleash.verifying.verify import VerifyOptions

RATES = (0.0, 0.002, 0.01, 0.03, 0.1, 0.3, 0.9)
PLAIN = SamplingParams()
QUIET = VerifyOptions(verifier="string", jobs=1, cache=False)


def script(file: Path, rates: Sequence[float], **more: object) -> Path:
    """A script by which problem p<i> is answered correctly with its rate, else wrongly or not at all."""
    problems = {
        f"p{i}": {f"\\boxed{{{i}}}": rate, f"\\boxed{{{i + 100}}}": (1 - rate) * 0.7, "no idea": (1 - rate) * 0.3}
        for i, rate in enumerate(rates)
    }
    file.write_text(json.dumps({"problems": problems, **more}))
    return file


def problems(count: int, verifier: str = "string") -> pl.DataFrame:
    questions = [f"Which number is {i}?" for i in range(count)]
    return as_problems(
        pl.DataFrame(
            {
                "problem": [f"p{i}" for i in range(count)],
                "question": questions,
                "hash": [question_hash(question) for question in questions],
                "gold": [str(i) for i in range(count)],
                "verifier": [verifier] * count,
            }
        )
    )


def problems_file(file: Path, count: int) -> Path:
    rows = problems(count).select("problem", "question", "gold", "verifier").iter_rows(named=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def sampler_of(file: Path, **settings: str) -> Sampler:
    return open_sampler(model_of(f"scripted:{file}", settings))


def drawn(
    folder: Path,
    file: Path,
    k: int,
    until: int = 0,
    count: int = len(RATES),
    seed: int = 0,
    settings: Mapping[str, str] | None = None,
    decoding: SamplingParams = PLAIN,
) -> DrawSummary:
    """Draw from a script into a folder."""
    model = f"scripted:{file}"
    sampler = sampler_of(file, **(settings or {}))
    return draw(folder, problems(count), sampler, decoding, DrawRequest(model, k, until, seed), QUIET)


def samples(folder: Path, *columns: str) -> pl.DataFrame:
    """The samples of a run in order, without what may differ between two draws of the same."""
    frames = [pl.read_parquet(shard) for shard in sorted((folder / "samples").glob("*.parquet"))]
    names = columns or ("problem", "index", "text", "tokens", "finish", "seed", "logprob_raw", "logprob_sampled")
    return pl.concat(frames).sort("problem", "index").select(names)
