"""Certificate folders: per problem all completions above epsilon, the unexplored mass, and verdicts.

A certificate folder is a run folder without samples: run.json and problems.parquet are the same, its kind is another.
Written by analyses/certificates/certify.py.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import polars as pl

from offleash.data.run import (
    CERTIFICATE,
    RUN_FILE,
    Budget,
    Origin,
    origin_document,
    problem_set_hash,
    read_facts,
    write_facts,
)
from offleash.data.run_folder import PROBLEMS_FILE, folder_name, is_run, read_problems
from offleash.data.shards import SHARD, cast_to_schema, scan_shards, write_atomically
from offleash.data.tables import TRUNCATED, VERDICT, VERDICTS
from offleash.data.verdict import Verdict
from offleash.data.verifier_choice import choose_verdicts
from offleash.errors import OffleashError

COMPLETIONS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),  # 0 is the most probable
    "text": pl.String(),
    "token_ids": pl.List(pl.UInt32()),  # without the token that ends it; two sequences may have the same text
    "finish": pl.String(),  # "length" marks one that is cut at the token limit
    "logprob_sampled": pl.Float64(),  # under the decoding, its end included
    "logprob_raw": pl.Float64(),
}

EXPANSIONS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "completions": pl.UInt32(),  # rows in COMPLETIONS
    "unexplored": pl.Float64(),  # mass of all that is in none of them
    "prefixes": pl.UInt64(),  # more probable than epsilon: each went through the model once
    "deepest": pl.UInt32(),  # tokens of the longest of them
    "forwarded": pl.UInt64(),  # tokens that went through the model
}


@dataclass(frozen=True)
class CertificateSettings:
    """All that a certificate depends on."""

    epsilon: float
    vocabulary: str  # hash of what the token ids stand for
    origin: Origin  # who answered and how; its seed and grid of chunks mean nothing here


@dataclass(frozen=True)
class Certificate:
    """A certificate as tables."""

    name: str
    problems: pl.DataFrame  # PROBLEMS
    terms: CertificateSettings
    verifier: str
    table: pl.DataFrame  # a row per certified problem: see `mass_table`
    completions: pl.LazyFrame  # problem, key, finish, p, verdict


@dataclass(frozen=True)
class CertificateFolder:
    """A certificate on disk, open for writing: the folder must have been claimed."""

    path: Path

    def begin(self, name: str, problems: pl.DataFrame, terms: CertificateSettings) -> None:
        """Write the first files of a certificate: run.json first, so that a killed process can be resumed."""
        origin = terms.origin
        facts = {
            "kind": CERTIFICATE,
            "tool": "offleash certify",
            "model": origin.model,
            "decoding": json.dumps(dict(origin.decoding)),
            "epsilon": repr(terms.epsilon),
            "vocabulary": terms.vocabulary,
            "origin": json.dumps(origin_document(origin)),
        }
        write_facts(self.path, name, problems, facts, Budget())
        self.write_problems(problems)

    def write_problems(self, problems: pl.DataFrame) -> None:
        """The problems as asked; again where a kill came between the first two files."""
        if read_facts(self.path).get("problem_set") == problem_set_hash(problems):
            write_atomically(self.path / PROBLEMS_FILE, problems)

    def has_problems(self) -> bool:
        return (self.path / PROBLEMS_FILE).is_file()

    def write(self, shard: str, completions: pl.DataFrame, expansion: pl.DataFrame) -> None:
        """Add a problem: its completions first, since it is done once its expansion is there."""
        for folder, frame, schema in (
            ("completions", completions, COMPLETIONS),
            ("expansions", expansion, EXPANSIONS),
        ):
            (self.path / folder).mkdir(exist_ok=True)
            write_atomically(self.path / folder / shard, cast_to_schema(frame, schema))

    def write_verdicts(self, verifier: str, shard: str, frame: pl.DataFrame) -> None:
        folder = self.path / "judged" / folder_name(verifier)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / shard, cast_to_schema(frame, VERDICTS).sort("problem", "index"))

    def completed_shards(self) -> set[str]:
        """Shards of expanded problems; partial shards left by a killed process are removed."""
        completed = {file.name for file in (self.path / "expansions").glob(SHARD)}
        for file in (self.path / "completions").glob(SHARD):
            if file.name not in completed:
                file.unlink()
        return completed

    def completions(self, shard: str) -> pl.DataFrame:
        return scan_shards(self.path / "completions", COMPLETIONS, shard).collect()

    def verdicts(self, verifier: str, shard: str) -> pl.DataFrame | None:
        file = self.path / "judged" / folder_name(verifier) / shard
        return scan_shards(file.parent, VERDICTS, shard).collect() if file.is_file() else None


def is_certificate(path: Path) -> bool:
    """Whether a folder is a certificate."""
    if not path.is_dir() or not is_run(path):
        return False
    facts = read_facts(path).get("facts")
    return isinstance(facts, dict) and facts.get("kind") == CERTIFICATE


def refuse_drawing_into(path: Path) -> None:
    """Refuse a certificate as the place of a draw."""
    if is_certificate(path):
        raise OffleashError(
            f"{path} is a certificate: it holds completions and their probabilities, not samples. Choose another "
            "folder with -o."
        )


def read_certificate_settings(path: Path) -> CertificateSettings:
    """The settings that a certificate depends on."""
    facts = read_facts(path).get("facts")
    known = facts if isinstance(facts, dict) else {}
    try:
        origin = json.loads(known["origin"])
        return CertificateSettings(
            float(known["epsilon"]),
            str(known["vocabulary"]),
            Origin(**{field.name: origin[field.name] for field in fields(Origin) if field.name in origin}),
        )
    except (KeyError, ValueError, TypeError):
        raise OffleashError(
            f"{path / RUN_FILE} is damaged: some settings of the certificate are missing. Restore it, or certify again."
        ) from None


def open_certificate(path: Path, name: str | None = None, verifier: str | None = None) -> Certificate:
    """A certificate folder as tables, with the verdicts of one verifier."""
    terms, problems = read_certificate_settings(path), read_problems(path)
    if not any((path / "expansions").glob(SHARD)):
        raise OffleashError(f"{path} has no certified problems yet. Resume it with `offleash certify`.")
    chosen = _verifier(path, verifier)
    expansions = scan_shards(path / "expansions", EXPANSIONS).collect()
    verdicts = scan_shards(path / "judged" / chosen, VERDICTS).select("problem", "index", "verdict")
    completions = (
        scan_shards(path / "completions", COMPLETIONS)
        .join(verdicts, on=["problem", "index"], how="left")
        .select(
            "problem",
            pl.col("token_ids").cast(pl.List(pl.String)).list.join(" ").alias("key"),
            "finish",
            pl.col("logprob_sampled").exp().alias("p"),
            pl.col("verdict").fill_null(pl.lit(Verdict.FAILED.value, VERDICT)),  # not judged yet: says nothing
        )
    )
    table = mass_table(completions, expansions, terms.epsilon)
    incomplete = table.filter(pl.col("found") != pl.col("completions"))
    if incomplete.height:
        problem, stored, written = incomplete.select("problem", "found", "completions").row(0)
        raise OffleashError(
            f"{path}: problem {problem!r} has {stored} completions, but {written} were written. Restore its shard in "
            "'expansions', which was changed or removed; or delete it and certify again."
        )
    label = name or str(read_facts(path).get("name") or path.name)
    return Certificate(label, problems, terms, chosen, table.drop("found"), completions)


def mass_table(completions: pl.LazyFrame, expansions: pl.DataFrame, epsilon: float) -> pl.DataFrame:
    """For each problem, the mass of every verdict and its largest correct and failed completion."""
    p, verdict = pl.col("p"), pl.col("verdict")

    def mass(kind: Verdict) -> pl.Expr:
        return p.filter(verdict == kind.value).sum().alias(kind.value)

    def largest(kind: Verdict) -> pl.Expr:
        return p.filter(verdict == kind.value).max().fill_null(0.0)

    by_problem = completions.group_by("problem").agg(
        *(mass(kind) for kind in Verdict),
        p.filter(pl.col("finish") == TRUNCATED).sum().alias("truncated"),
        largest(Verdict.CORRECT).alias("largest"),
        largest(Verdict.FAILED).alias("largest_failed"),
        ((verdict == Verdict.CORRECT.value) & (p > epsilon)).sum().cast(pl.Int64).alias("correct_completions"),
        pl.len().cast(pl.Int64).alias("found"),
    )
    table = expansions.join(by_problem.collect(), on="problem", how="left", maintain_order="left")
    numbers = [*(kind.value for kind in Verdict), "truncated", "largest", "largest_failed"]
    return table.with_columns(
        pl.col(numbers).fill_null(0.0),
        pl.col("correct_completions", "found").fill_null(0),
        pl.col("completions").cast(pl.Int64),
    )


def merge_certificates(name: str, certificates: list[Certificate]) -> Certificate:
    """Certificates of several sets of problems as one; the coarsest epsilon holds for all."""
    if len(certificates) == 1:
        return certificates[0]
    problems = pl.concat([certificate.problems for certificate in certificates])
    duplicated = problems.filter(pl.col("problem").is_duplicated())
    if duplicated.height:
        raise OffleashError(
            f"{name!r}: problem {duplicated['problem'][0]!r} is in two of the certificates. Give only one of them."
        )
    _require_equal(name, "model", (certificate.terms.origin.model for certificate in certificates))
    _require_equal(name, "vocabulary", (certificate.terms.vocabulary for certificate in certificates))
    _require_equal(
        name, "decoding", (json.dumps(dict(certificate.terms.origin.decoding)) for certificate in certificates)
    )
    coarsest = max(certificates, key=lambda certificate: certificate.terms.epsilon)
    verifiers = ", ".join(dict.fromkeys(certificate.verifier for certificate in certificates))
    return Certificate(
        name,
        problems,
        coarsest.terms,
        verifiers,
        pl.concat([certificate.table for certificate in certificates]),
        pl.concat([certificate.completions for certificate in certificates]),
    )


def _require_equal(name: str, setting: str, values: Iterable[str]) -> None:
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 1:
        raise OffleashError(
            f"The certificates of {name!r} differ in {setting} ({', '.join(distinct)}). Give one of them."
        )


def _verifier(path: Path, requested: str | None) -> str:
    """The folder of verdicts to read: the one named, else the newest version of the only verifier."""
    folder = path / "judged"
    known = sorted(entry.name for entry in folder.iterdir() if any(entry.glob(SHARD))) if folder.is_dir() else []
    chosen = choose_verdicts(path, folder, known, requested).name
    if chosen is None:
        raise OffleashError(f"{path} has no verdicts yet. Resume it with `offleash certify`.")
    return chosen
