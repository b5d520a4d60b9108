"""What top-p cuts off, exactly: correct completions of a certificate that a smaller top-p can never draw.

Top-p sets the tail of every next-token distribution to zero, so a completion with one token in a tail is out of the
support, however many samples are drawn. A certificate holds every completion above epsilon with its tokens; these are
rescored under each top-p, by the same code that draws.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from offleash.data.certificates import COMPLETIONS, Certificate, is_certificate, open_certificate
from offleash.data.shards import scan_shards
from offleash.data.tables import VERDICTS
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.chat_template import stored_chat_options
from offleash.samplers.exact_support import expander_of, refuse_sampler
from offleash.samplers.registry import Model, model_of, open_sampler
from offleash.samplers.sampler import TRUNCATED, Request, Sampler, SamplingParams, decoding_of
from offleash.stats.binomials import Float, Integer
from offleash.stats.intervals import NO_INTERVAL, Estimate, clipped, mean_of, ratios, share_of, strata

if TYPE_CHECKING:
    from offleash.samplers.huggingface.sampler import HuggingFace
    from offleash.samplers.huggingface.scoring import TargetText

# Rescoring: log-probabilities of given token sequences under a decoding, by the engine that draws and certifies.


TOKENS_PER_CALL = 200_000  # tokens per call of the engine: bounds memory, not the result


@dataclass(frozen=True)
class TokenSequence:
    """A completion as tokens, without the token that ends it: which one that is makes no difference."""

    problem: str
    ids: tuple[int, ...]
    finish: str


@dataclass
class Rescorer:
    """Log-probabilities of token sequences under a model.

    Token ids are scored as they are, never by way of their text, which may tokenize
    differently from how it was drawn.
    """

    sampler: "HuggingFace"
    _prompts: dict[str, list[int]] = field(default_factory=dict)
    _stop: tuple[str, ...] = ()

    @classmethod
    def of(cls, sampler: Sampler) -> "Rescorer":
        from offleash.samplers.huggingface.sampler import HuggingFace

        assert isinstance(sampler, HuggingFace), "expander_of has checked it"
        return cls(sampler)

    def set_prompts(self, problems: pl.DataFrame, stop: tuple[str, ...]) -> None:
        """Tokenize the prompts of the problems whose completions are scored; `stop`: the certificate's stop texts."""
        self._stop = stop
        for problem, prompt, images in problems.select("problem", "prompt", "images").iter_rows():
            tokens, error = self.sampler.prompt_encoder.encode(Request(problem, prompt, 0, 1, 0, tuple(images or ())))
            if error:
                raise OffleashError(f"The prompt of problem {problem!r} could not be encoded: {error}.")
            self._prompts[problem] = tokens

    def logprobs(self, sequences: Sequence[TokenSequence], decoding: SamplingParams) -> Float:
        """Log-probability of each, its end included; -inf where the decoding sets one of its tokens to zero.

        Which of several end tokens ended a completion makes no difference: their probabilities are added.
        """
        from offleash.samplers.huggingface.scoring import TargetText

        numbers = {problem: number for number, problem in enumerate(self._prompts)}
        targets: list[TargetText] = []
        owner: list[int] = []  # which sequence each row belongs to: an ended one has a row for every end token
        empty: list[int] = []
        for position, (sequence, ended) in enumerate(zip(sequences, self._ended_by_eos(sequences), strict=True)):
            for ending in [(end,) for end in self.sampler.loaded.ends] if ended else [()]:
                token_T = np.array([*sequence.ids, *ending], np.int64)
                if len(token_T):
                    targets.append(TargetText(len(owner), numbers[sequence.problem], token_T))
                    owner.append(position)
                else:  # no token and no end: the empty prefix has probability 1
                    empty.append(position)
        sums_N4 = self._score(targets, decoding)
        logprob_N = np.full(len(sequences), -np.inf)
        # logaddexp.at and not an assignment: several rows, one per end token, belong to the same sequence.
        np.logaddexp.at(logprob_N, np.array(owner, np.int64), sums_N4[:, 2])
        logprob_N[empty] = 0.0
        return logprob_N

    def _ended_by_eos(self, sequences: Sequence[TokenSequence]) -> list[bool]:
        """Whether an end token follows: not after what was cut at the limit, nor after a stop text."""
        from offleash.samplers.huggingface.text import decode

        is_finished = [sequence.finish != TRUNCATED for sequence in sequences]
        if not self._stop:
            return is_finished
        # a completion that an end token ended holds no stop text, or it would have ended there
        texts = decode(self.sampler.loaded.tokenizer, [list(sequence.ids) for sequence in sequences])
        return [
            has_eos and not any(stop in text for stop in self._stop)
            for has_eos, text in zip(is_finished, texts, strict=True)
        ]

    def _score(self, targets: "Sequence[TargetText]", decoding: SamplingParams) -> Float:
        """Sums over the tokens of each target, in batches; column 2 is the log-probability under the decoding."""
        from offleash.samplers.huggingface.scoring import ScoreSums, score_targets

        sampler = self.sampler
        assert sampler.network is not None, "expander_of has checked it"
        offset_N = np.cumsum([0, *(text.length for text in targets)])
        ends, cells, sums_N4 = sampler.loaded.ends, sampler.limits.cells, np.zeros((len(targets), 4))
        scores = ScoreSums(decoding, ends, cells, sums_N4, np.zeros(int(offset_N[-1]), np.float32), offset_N[:-1])
        prompts = list(self._prompts.values())
        start = 0
        while start < len(targets):
            stop, tokens = start, 0
            while stop < len(targets) and (stop == start or tokens < TOKENS_PER_CALL):
                tokens += targets[stop].length
                stop += 1
            score_targets(sampler.network, sampler.limits, sampler.loaded.context, prompts, targets[start:stop], scores)
            start = stop
        return scores.sums_N4


# Cuts: what each top-p leaves of a certificate's correct completions.


# How far a token's log-probability may move when it is recomputed, because batches of another shape round differently:
TOLERANCE, COARSE_TOLERANCE = 1e-3, 5e-2  # with float32 weights, and with fewer bits


@dataclass(frozen=True)
class TopPCut:
    """What one top-p leaves of the correct completions of P problems. Masses are those without top-p."""

    top_p: float
    removed_P: Float  # correct mass set to exactly zero
    kept_P: Integer  # correct completions that can still be drawn
    chance_P: Float  # of a correct sample under this top-p, from the completions that were found: at least
    removed: Estimate  # mean over problems
    share: Estimate  # of the correct mass that was found
    lost_all: Estimate  # share of the problems with correct completions that lose all of them


@dataclass(frozen=True)
class NucleusCut:
    """A certificate under several top-p: P problems, and one TopPCut per top-p."""

    name: str
    folder: Path
    model: str
    decoding: SamplingParams  # without the cut: top-p 1
    own: float  # temperature of the certificate
    epsilon: float  # of the certificate: at its own temperature every completion above it is there
    verifier: str
    problem_P: tuple[str, ...]
    correct_P: Float  # mass
    completions_P: Integer  # correct ones
    unexplored_P: Float  # mass that was not found, or that the verifier failed on: it may be correct, and cut
    cuts: tuple[TopPCut, ...]  # in the order of the command line

    @property
    def other_temperature(self) -> bool:
        """Whether the temperature is not the certificate's: then its epsilon bounds nothing."""
        return self.own != self.decoding.temperature

    @property
    def reached(self) -> int:
        """Problems with a correct completion."""
        return int((self.completions_P > 0).sum())

    def lost_all(self, cut: TopPCut) -> int:
        """Of these, problems that lose every one that was found."""
        return int(((self.completions_P > 0) & (cut.kept_P == 0)).sum())

    def rest(self, cut: TopPCut) -> float:
        """Mean mass of the problems so emptied that may hold a correct completion yet; NaN where there are none."""
        rows_P = (self.completions_P > 0) & (cut.kept_P == 0)
        return float(self.unexplored_P[rows_P].mean()) if rows_P.any() else float("nan")

    def bounds(self, cut: TopPCut) -> tuple[float, float]:
        """Mean correct mass that is removed: at least, and at most if all that is not known were correct and cut."""
        return float(cut.removed_P.mean()), float((cut.removed_P + self.unexplored_P).mean())


def cut_certificates(
    folders: Sequence[Path],
    top_ps: Sequence[float],
    temperature: float | None = None,
    model: Model | None = None,
    verifier: str | None = None,
    progress: Progress = silent,
    settings: Mapping[str, str] | None = None,
    raw: bool = False,
) -> list[NucleusCut]:
    """What each top-p cuts off each certificate; whatever can be refused is refused before a model is loaded.

    Args:
        folders: certificates, made with top-p 1.
        top_ps: each below 1.
        temperature: another than the certificates' own; then only their completions are known there.
        model: where the model is now, if it has moved.
        verifier: whose verdicts decide what is correct.
        progress: called with what is being done.
        settings: settings of the sampler other than those of the certificate.
        raw: without the chat template; also where the certificate was made so.
    """
    if not top_ps:
        raise OffleashError("Name at least one top-p below 1, for example --top-p 0.9,0.95.")
    certificates = [_open(folder, verifier) for folder in folders]
    decodings = [
        _uncut_decoding(certificate, folder, top_ps, temperature)
        for certificate, folder in zip(certificates, folders, strict=True)
    ]
    models = [model_from(certificate, model, settings or {}, raw) for certificate in certificates]
    for chosen in models:
        refuse_sampler(chosen.sampler)
    done = []
    for folder, certificate, decoding, chosen in zip(folders, certificates, decodings, models, strict=True):
        progress(f"loading {chosen}")
        with closing(open_sampler(chosen)) as sampler:
            vocabulary = expander_of(sampler).vocabulary
            if vocabulary != certificate.terms.vocabulary:
                raise OffleashError(
                    f"{chosen} has a different vocabulary ({vocabulary}) from the model of {folder} "
                    f"({certificate.terms.vocabulary}), so the stored token ids do not apply to it. Name the "
                    f"certificate's own model: --model {certificate.terms.origin.model}."
                )
            rescorer = Rescorer.of(sampler)
            done.append(_cut_certificate(folder, certificate, decoding, str(chosen), rescorer, top_ps, progress))
    return done


def model_from(
    certificate: Certificate, model: Model | None = None, overrides: Mapping[str, str] | None = None, raw: bool = False
) -> Model:
    """The model of a certificate, or `model` where it has moved, with the settings of then but for `overrides`."""
    origin = certificate.terms.origin
    known = origin.about.get("settings")
    settings = {str(name): str(value) for name, value in known.items()} if isinstance(known, dict) else {}
    named = model or model_of(origin.model)
    merged = {**settings, **named.settings, **(overrides or {})}
    chat = named.chat or stored_chat_options(origin.about)
    return replace(named, settings=merged, raw=raw or named.raw or bool(origin.about.get("raw")), chat=chat)


def _open(folder: Path, verifier: str | None) -> Certificate:
    if not is_certificate(folder):
        raise OffleashError(
            f"{folder} is not a certificate. Make one with `offleash certify PROBLEMS MODEL -o {folder}` (top-p 1)."
        )
    return open_certificate(folder, verifier=verifier)


def _uncut_decoding(
    certificate: Certificate, folder: Path, top_ps: Sequence[float], temperature: float | None
) -> SamplingParams:
    """The decoding that is cut: the certificate's own, or the same at another temperature."""
    certificate_decoding = decoding_of(certificate.terms.origin.decoding)
    if certificate_decoding.top_p < 1:
        raise OffleashError(
            f"{folder} was certified with top-p {certificate_decoding.top_p:g}, so what that top-p cut off is not in "
            "it. Certify again with --top-p 1 into another folder."
        )
    decoding = certificate_decoding if temperature is None else replace(certificate_decoding, temperature=temperature)
    if decoding.temperature == 0:
        raise OffleashError(
            "At temperature 0 one token has all the mass, so top-p cuts nothing. Choose a higher temperature."
        )
    for top_p in top_ps:
        replace(decoding, top_p=top_p)  # its own check refuses a value that is not in (0, 1]
    return decoding


def _cut_certificate(
    folder: Path,
    certificate: Certificate,
    decoding: SamplingParams,
    model: str,
    rescorer: Rescorer,
    top_ps: Sequence[float],
    progress: Progress,
) -> NucleusCut:
    """What each top-p removes of the correct completions of one certificate, by rescoring them."""
    certificate_decoding = decoding_of(certificate.terms.origin.decoding)
    rows = _completions(folder, certificate)
    correct = rows.filter(pl.col("verdict") == Verdict.CORRECT.value)
    name_P = certificate.table["problem"].to_list()
    row_of = {name: number for number, name in enumerate(name_P)}
    tokens = _tokens(correct)
    rescorer.set_prompts(certificate.problems.filter(pl.col("problem").is_in(name_P)), certificate_decoding.stop)
    # Checked on the very completions that are rescored: a fingerprint would not notice another dtype or template.
    _refuse_other_weights(rescorer, correct if correct.height else rows, certificate, folder, model, progress)
    logprob_sampled_C, unexplored_P = correct["logprob_sampled"].to_numpy(), _undecided_mass(certificate)
    if decoding.temperature != certificate_decoding.temperature:
        # The certificate has masses at its own temperature. Its completions, rescored at the new one, are known there
        # too; all other mass may be anything, also above epsilon.
        progress(f"{certificate.name}: rescoring all completions at temperature {decoding.temperature:g}")
        logprob_A = rescorer.logprobs(_tokens(rows), decoding)
        problem_A = rows["problem"].replace_strict(row_of, return_dtype=pl.Int64).to_numpy()
        judged_A = (rows["verdict"] != Verdict.FAILED.value).to_numpy()
        known_P = _sum_by_problem(problem_A, np.exp(logprob_A) * judged_A, name_P)
        logprob_sampled_C = logprob_A[(rows["verdict"] == Verdict.CORRECT.value).to_numpy()]
        unexplored_P = np.clip(1 - known_P, 0.0, None)
    problem_C = correct["problem"].replace_strict(row_of, return_dtype=pl.Int64).to_numpy().astype(np.int64)
    mass_C, stratum_P = np.exp(logprob_sampled_C), _stratum(certificate)
    correct_P, completions_P = (
        _sum_by_problem(problem_C, mass_C, name_P),
        _sum_by_problem(problem_C, None, name_P).astype(np.int64),
    )
    cuts = []
    for number, top_p in enumerate(top_ps, 1):
        progress(f"{certificate.name}: top-p {top_p:g} ({number} of {len(top_ps)})")
        # Top-p renormalises what it keeps: a completion that survives is at least as probable as without it.
        logprob_C = rescorer.logprobs(tokens, replace(decoding, top_p=top_p))
        removed_C = np.isneginf(logprob_C)  # exactly zero: some token of it is in a tail that top-p cuts
        removed_P, chance_P = (
            _sum_by_problem(problem_C, value_C, name_P) for value_C in (mass_C * removed_C, np.exp(logprob_C))
        )
        kept_P = _sum_by_problem(problem_C[~removed_C], None, name_P).astype(np.int64)
        cuts.append(_top_p_cut(top_p, removed_P, kept_P, chance_P, correct_P, completions_P, stratum_P))
    return NucleusCut(
        *(
            certificate.name,
            folder,
            model,
            decoding,
            certificate_decoding.temperature,
            certificate.terms.epsilon,
            certificate.verifier,
        ),
        *(tuple(name_P), correct_P, completions_P, unexplored_P, tuple(cuts)),
    )


def _sum_by_problem(problem_C: Integer, value_C: Float | None, name_P: Sequence[str]) -> Float:
    """Sums over the completions of each problem; without values, their number."""
    return np.bincount(problem_C, weights=value_C, minlength=len(name_P)).astype(np.float64)


def _top_p_cut(
    top_p: float,
    removed_P: Float,
    kept_P: Integer,
    chance_P: Float,
    correct_P: Float,
    completions_P: Integer,
    stratum_P: Integer,
) -> TopPCut:
    reached_P = completions_P > 0
    lost_all = Estimate(float("nan"), NO_INTERVAL)
    if reached_P.any():
        # Renumbered from 0: a benchmark may have no reached problem.
        _, reached_stratum = np.unique(stratum_P[reached_P], return_inverse=True)
        lost_all = share_of((kept_P[reached_P] == 0).astype(np.float64), reached_stratum.astype(np.int64))
    if not removed_P.any():  # nothing was cut on any problem: resampling zeros would give an interval of no width
        unseen = Estimate(0.0, NO_INTERVAL)
        return TopPCut(top_p, removed_P, kept_P, chance_P, unseen, unseen, lost_all)
    share_Q, ends = ratios(removed_P[:, None], correct_P[:, None], stratum_P)
    share = Estimate(float(share_Q[0]), clipped(ends[0], 0.0, 1.0))
    return TopPCut(top_p, removed_P, kept_P, chance_P, mean_of(removed_P, stratum_P), share, lost_all)


def _completions(folder: Path, certificate: Certificate) -> pl.DataFrame:
    verdicts = scan_shards(folder / "judged" / certificate.verifier, VERDICTS).select("problem", "index", "verdict")
    rows = scan_shards(folder / "completions", COMPLETIONS).select(
        "problem", "index", "token_ids", "finish", "logprob_sampled"
    )
    judged = rows.join(verdicts, on=["problem", "index"], how="left").with_columns(pl.col("verdict").cast(pl.String))
    return judged.with_columns(pl.col("verdict").fill_null(Verdict.FAILED.value)).collect()


def _tokens(rows: pl.DataFrame) -> list[TokenSequence]:
    columns = (rows["problem"], rows["token_ids"].to_list(), rows["finish"])
    return [TokenSequence(problem, tuple(ids), finish) for problem, ids, finish in zip(*columns, strict=True)]


def _undecided_mass(certificate: Certificate) -> Float:
    """Mass per problem that may be correct: what was not expanded, and what the verifier failed on."""
    table = certificate.table
    return np.asarray(table["unexplored"].to_numpy() + table["failed"].to_numpy(), dtype=np.float64)


def _stratum(certificate: Certificate) -> Integer:
    """The benchmark of each problem, as intervals resample within benchmarks."""
    named = certificate.problems.select("problem", pl.col("benchmark").fill_null(""))
    rows = certificate.table.select("problem").join(named, on="problem", how="left", maintain_order="left")
    return strata(rows["benchmark"].to_list())


def _refuse_other_weights(
    rescorer: Rescorer,
    rows: pl.DataFrame,
    certificate: Certificate,
    folder: Path,
    model: str,
    progress: Progress,
) -> None:
    """Refuse a model that does not give the certificate's completions the certificate's probabilities.

    A certificate without completions has only the recorded fingerprint to compare.
    """
    progress(f"checking {model} against {folder}")
    about, stored = rescorer.sampler.about, certificate.terms.origin.about
    if not rows.height:
        compared = {
            "weights": (stored.get("fingerprint"), about.fingerprint),
            "raw": (bool(stored.get("raw")), about.raw),
        }
        differing = [name for name, (old, new) in compared.items() if old != new and old not in (None, "")]
        if differing:
            raise OffleashError(
                f"{model} is not the model that {folder} was certified with (different {' and '.join(differing)}), and "
                "the certificate has no completion to check it against. Name the certificate's own model: --model "
                f"{certificate.terms.origin.model}."
            )
    certificate_decoding = decoding_of(certificate.terms.origin.decoding)
    difference = np.abs(rescorer.logprobs(_tokens(rows), certificate_decoding) - rows["logprob_sampled"].to_numpy())
    full_precision = about.settings.get("dtype") == "float32"
    # rounding adds up over tokens, the end token included
    allowed = (TOLERANCE if full_precision else COARSE_TOLERANCE) * (rows["token_ids"].list.len().to_numpy() + 1)
    if len(difference) and not (difference <= allowed).all():
        worst = int(np.argmax(np.nan_to_num(difference, nan=np.inf) - allowed))
        raise OffleashError(
            f"The log-probability of a completion of problem {rows['problem'][worst]!r} under {model} differs from the "
            f"one in {folder} by {difference[worst]:.3g}: the weights or the precision differ. Name the certificate's "
            "own model with --model, or certify again into another folder."
        )
