"""Reasoning Gym's scorers, asked: raw answer and repaired answer, binarised, behind guards; the graded score is kept.

The raw answer is scored first, then the repaired one, and the better counts, for every model alike. Correct is a
score of at least 0.99, but see gym/credits.py for what scorers credit that is no answer. A scorer that cannot read a
text calls it wrong; one that runs out of memory or stack has failed. Runs in the sandbox: some scorers evaluate what a
model wrote.
"""

import io
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from math import isfinite
from typing import Any

import reasoning_gym.factory  # when the worker starts, not at every case: it takes two seconds

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.arithmetic import canonical
from offleash.verifiers.countdown import way
from offleash.verifiers.reasoning_gym.credits import uncredited
from offleash.verifiers.reasoning_gym.decide import prepared
from offleash.verifiers.reasoning_gym.guards import Entry, as_scored, sums_rules, unfit
from offleash.verifiers.repairs import repaired
from offleash.verifiers.verifier import Case, Judgement

CORRECT = 0.99
SUMS = frozenset({"countdown", "puzzle24"})
BUILT = frozenset({"sokoban"})  # its scorer needs what the constructor makes; most need the settings only
SIGNS = str.maketrans({"×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-"})
RANK = {Verdict.WRONG: 0, Verdict.FAILED: 1, Verdict.CORRECT: 2}  # of two readings of one answer, the better


def decide(case: Case) -> Judgement:
    """The verdict on the answer, raw or repaired, by the task's scorer."""
    try:
        task, entry, settings = prepared(case)
    except OffleashError as fault:
        return Judgement(Verdict.FAILED, str(fault))
    scorer = scorer_of(task, settings)
    best: Judgement | None = None
    for text in _readings(task, case.answer):
        judged = _judged(task, scorer, entry, text)
        if best is None or (RANK[judged.verdict], judged.score or 0.0) > (RANK[best.verdict], best.score or 0.0):
            best = judged
        if best.verdict is Verdict.CORRECT:
            break
    assert best is not None
    return best


def _readings(task: str, answer: str) -> list[str]:
    """The texts to score, in order: as written, repaired, and with the signs this task is written in."""
    plain = repaired(answer)
    readings = [answer, plain]
    if task in SUMS:
        readings.append(plain.translate(SIGNS))
    elif task == "prime_factorization":
        readings.append(plain.replace("*", "×").replace("·", "×"))
    return list(dict.fromkeys(readings))


def _judged(task: str, scorer: Any, entry: Entry, text: str) -> Judgement:
    if why := unfit(task, text, entry):
        return Judgement(Verdict.WRONG, why, score=0.0)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = float(scorer.score_answer(as_scored(task, text, entry), entry))
    except (MemoryError, RecursionError, OSError) as trouble:
        return Judgement(Verdict.FAILED, f"the task's scorer gave up: {type(trouble).__name__}")
    except Exception as trouble:  # scorers parse the text without care: what they stumble over is not an answer
        return Judgement(Verdict.WRONG, f"the task's scorer could not read it: {trouble!r:.200}", score=0.0)
    if not isfinite(score) or score < CORRECT:
        return Judgement(Verdict.WRONG, f"the task's scorer gives it {score:.3g}", score if isfinite(score) else 0.0)
    if why := uncredited(task, text, entry, score):
        return Judgement(Verdict.WRONG, why, score=0.0)
    solution = canonical(way(text, sums_rules(entry))) if task in SUMS else None
    return Judgement(Verdict.CORRECT, score=min(score, 1.0), solution=solution)


def scorer_of(task: str, settings: Mapping[str, object]) -> Any:
    """The task's scorer under its settings; those that another version of the library had are left out."""
    dataset_class, config_class = reasoning_gym.factory.DATASETS[task]
    known = {field.name for field in fields(config_class)}
    config = config_class(**{name: value for name, value in settings.items() if name in known}, seed=0, size=1)
    if task in BUILT:
        return dataset_class(config)
    scorer = dataset_class.__new__(dataset_class)  # constructors load word lists and boards that scoring does not use
    scorer.config = config
    if "board_format_opts" in known:
        scorer.board_format_opts = config.board_format_opts
    if task == "word_ladder":
        scorer.word_sets = scorer._load_words_from_csv(config.min_word_length, config.max_word_length)
    return scorer
