"""Run a task's scorer on an answer, as written and repaired, and refuse credit for texts that are not the answer.

The better of both readings counts, for every model alike. Correct is a score of at least 0.99; the graded score is
kept. A scorer that cannot read a text calls it wrong; one that runs out of memory or stack has failed. Runs in the
sandbox: some scorers evaluate what a model wrote.

The order: `rejection_reason` (before), the library's scorer, `lost_credit_reason` (after). The scorer's own verdict
is never raised, only lowered: offleash measures what a model can solve, and scorers were written to give partial
rewards in training.
"""

import io
import json
import re
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

import reasoning_gym.factory

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.arithmetic import canonical
from offleash.verifiers.countdown import solution_tree
from offleash.verifiers.reasoning_gym.decide import unpacked_case
from offleash.verifiers.reasoning_gym.guards import (
    NUMBER,
    Entry,
    Guard,
    answer_for_scorer,
    json_value,
    rejection_reason,
    sums_rules,
)
from offleash.verifiers.repairs import repair_answer
from offleash.verifiers.verifier import Case, Judgement

CORRECT_SCORE = 0.99  # scorers that round give 0.99 to what agrees to their precision; see ROUNDED_SCORE_TASKS
SUM_TASKS = frozenset({"countdown", "puzzle24"})
TASKS_NEEDING_CONSTRUCTOR = frozenset(
    {"sokoban"}
)  # its scorer needs what the constructor makes; most need the settings only
SIGNS = str.maketrans({"×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-"})
VERDICT_RANK = {Verdict.WRONG: 0, Verdict.FAILED: 1, Verdict.CORRECT: 2}  # of two readings of one answer, the better


def decide(case: Case) -> Judgement:
    """The verdict on the answer, raw or repaired, by the task's scorer."""
    try:
        task, entry, settings = unpacked_case(case)
    except OffleashError as error:
        return Judgement(Verdict.FAILED, str(error))
    scorer = scorer_of(task, settings)
    best: Judgement | None = None
    for text in _readings(task, case.answer):
        judged = _score_answer(task, scorer, entry, text)
        if best is None or (VERDICT_RANK[judged.verdict], judged.score or 0.0) > (
            VERDICT_RANK[best.verdict],
            best.score or 0.0,
        ):
            best = judged
        if best.verdict is Verdict.CORRECT:
            break
    assert best is not None
    return best


def _readings(task: str, answer: str) -> list[str]:
    """The texts to score, in order: as written, repaired, and with the signs this task is written in."""
    plain = repair_answer(answer)
    readings = [answer, plain]
    if task in SUM_TASKS:
        readings.append(plain.translate(SIGNS))
    elif task == "prime_factorization":
        readings.append(plain.replace("*", "×").replace("·", "×"))
    return list(dict.fromkeys(readings))


def _score_answer(task: str, scorer: Any, entry: Entry, text: str) -> Judgement:
    """The judgement of one reading of the answer: guard, score, guard."""
    if reason := rejection_reason(task, text, entry):
        return Judgement(Verdict.WRONG, reason, score=0.0)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = float(scorer.score_answer(answer_for_scorer(task, text, entry), entry))
    except (MemoryError, RecursionError, OSError) as error:
        return Judgement(Verdict.FAILED, f"the task's scorer gave up: {type(error).__name__}")
    except Exception as error:  # scorers parse the text without care: what they stumble over is not an answer
        return Judgement(Verdict.WRONG, f"the task's scorer could not read it: {error!r:.200}", score=0.0)
    if not isfinite(score) or score < CORRECT_SCORE:
        return Judgement(Verdict.WRONG, f"the task's scorer gives it {score:.3g}", score if isfinite(score) else 0.0)
    if reason := lost_credit_reason(task, text, entry, score):
        return Judgement(Verdict.WRONG, reason, score=0.0)
    solution = canonical(solution_tree(text, sums_rules(entry))) if task in SUM_TASKS else None
    return Judgement(Verdict.CORRECT, score=min(score, 1.0), solution=solution)


def scorer_of(task: str, settings: Mapping[str, object]) -> Any:
    """The task's scorer under its settings; those that another version of the library had are left out."""
    dataset_class, config_class = reasoning_gym.factory.DATASETS[task]
    known = {field.name for field in fields(config_class)}
    config = config_class(**{name: value for name, value in settings.items() if name in known}, seed=0, size=1)
    if task in TASKS_NEEDING_CONSTRUCTOR:
        return dataset_class(config)
    scorer = dataset_class.__new__(dataset_class)  # constructors load word lists and boards that scoring does not use
    scorer.config = config
    if "board_format_opts" in known:
        scorer.board_format_opts = config.board_format_opts
    if task == "word_ladder":
        scorer.word_sets = scorer._load_words_from_csv(config.min_word_length, config.max_word_length)
    return scorer


# Guards after scoring: texts that a scorer credits although they are not the answer; their credit is refused.
#
# A guard returns a reason, or nothing, and never credits. Found by reading the scorers of version 0.1.25 and by giving
# all 105 the same garbage; docs/reasoning-gym.md lists what each credited.


ROUNDED_SCORE_TASKS = frozenset(
    {"complex_arithmetic", "polynomial_equations"}
)  # a score of 0.99 here is a rounded number


def lost_credit_reason(task: str, answer: str, entry: Entry, score: float) -> str:
    """Why a text that the scorer credits is not the answer, or nothing."""
    if score < 1 and task not in ROUNDED_SCORE_TASKS:
        return f"nearly the answer ({score:.4f})"
    return GUARDS_AFTER[task](answer, entry) if task in GUARDS_AFTER else ""


def _wrong_word_reason(answer: str, entry: Entry) -> str:
    """game_of_life_halting compares bool(text), true of any; figlet_font and spell_backward read the beginning only."""
    return "" if _normalised_word(answer) == _normalised_word(entry["answer"]) else "a different word"


def _normalised_word(text: str) -> str:
    """A text without white space and case."""
    return re.sub(r"\s", "", text).lower()


def _word_count_guard(separator: str | None) -> Guard:
    """letter_jumble and word_sorting credit the right words followed by any others."""

    def guard(answer: str, entry: Entry) -> str:
        words, expected = answer.strip().split(separator), entry["answer"].strip().split(separator)
        return "" if len(words) == len(expected) else f"{len(words)} words instead of {len(expected)}"

    return guard


def _not_a_number_reason(answer: str, entry: Entry) -> str:
    """Scorers that drop every comma would read 1,2,3 as 123, and a power of ten of nine digits takes all memory."""
    return "" if NUMBER.fullmatch(answer.strip()) else "not a number"


def _wrong_integer_reason(answer: str, entry: Entry) -> str:
    """calendar_arithmetic credits days that are nearly right, and any number at all where the answer is negative."""
    if not re.fullmatch(r"[+-]?\d+", entry["answer"].strip()):
        return ""  # a weekday, or yes and no: compared as they are
    same = re.fullmatch(r"[+-]?\d{1,20}", answer.strip(), re.ASCII) and int(answer) == int(entry["answer"])
    return "" if same else "a different number"


def _wrong_candidate_reason(answer: str, entry: Entry) -> str:
    """number_format allows an error of 0.01, within which other candidates lie."""
    if not NUMBER.fullmatch(answer.strip()):
        return "not a number"
    value, metadata = Decimal(answer.strip().replace(",", "")), entry["metadata"]
    nearest_number = min(
        (Decimal(repr(float(other))) for other in metadata["candidates"]), key=lambda other: abs(other - value)
    )
    return "" if nearest_number == Decimal(repr(float(metadata["solution"]))) else "a different candidate"


def _wrong_single_number_reason(answer: str, entry: Entry) -> str:
    """gsm_symbolic takes the first digits it finds, without their sign, whatever follows."""
    if re.search(r"\bnot\b|n't\b|≠", answer):
        return "it says what the answer is not"
    numbers = {Decimal(number.replace(",", "")) for number in NUMBER.findall(answer[:2_000])}
    if len(answer) > 2_000 or len(numbers) != 1:
        return f"{len(numbers)} different numbers instead of one"
    return "" if numbers == {Decimal(entry["answer"].replace(",", ""))} else "a different number"


def _not_finite_reason(answer: str, entry: Entry) -> str:
    """complex_arithmetic gives full marks to nan."""
    return "not a number" if re.search(r"nan|inf", answer, re.IGNORECASE) else ""


def _not_roots_reason(answer: str, entry: Entry) -> str:
    """polynomial_equations skips what is not a number: where there is no real root, any text would do."""
    text = answer.strip().strip("\"'")
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    return "" if all(NUMBER.fullmatch(part) for part in parts) else "not a list of numbers"


def _wrong_sorting_reason(answer: str, entry: Entry) -> str:
    """number_sorting allows an error of 1 in every number, and NaN for any of them."""
    numbers, expected = json_value(answer.replace("'", '"')), json_value(entry["answer"].replace("'", '"'))
    if not isinstance(numbers, list) or not isinstance(expected, list) or len(numbers) != len(expected):
        return "not a list of the expected length"
    try:
        same = all(
            abs(Decimal(str(a)) - Decimal(str(b))) <= Decimal("1e-9") for a, b in zip(numbers, expected, strict=True)
        )
    except InvalidOperation:
        return "not a list of numbers"
    return "" if same else "different numbers"


def _wrong_grid_reason(answer: str, entry: Entry) -> str:
    """game_of_life counts the cells that agree and ignores rows and columns too many."""
    return "" if json_value(answer) == json_value(entry["answer"]) else "a different grid"


def _wrong_shape_reason(answer: str, entry: Entry) -> str:
    """pool_matrix takes a row for a column."""
    rows, expected = (
        [line.split() for line in text.splitlines() if line.strip()] for text in (answer, entry["answer"])
    )
    return "" if [len(row) for row in rows] == [len(row) for row in expected] else "a matrix of a different shape"


def _not_a_pair_reason(answer: str, entry: Entry) -> str:
    """advanced_geometry reads the first two of any number of coordinates."""
    is_pair = entry["metadata"]["task_type"] == "orthocenter"
    return "not two coordinates" if is_pair and answer.count(",") != 1 else ""


def _not_a_fraction_reason(answer: str, entry: Entry) -> str:
    """fraction_simplification reads a fraction in front and ignores what follows."""
    plain = r"[+-]?\d{1,100}\s*/\s*[+-]?\d{1,100}|\\d?frac\s*\{\s*\d{1,100}\s*\}\s*\{\s*\d{1,100}\s*\}"
    return "" if re.fullmatch(plain, answer.strip().strip("$").strip(), re.ASCII) else "not a fraction"


def _ambiguous_mapping_reason(answer: str, entry: Entry) -> str:
    """cryptarithm lets a later digit for a letter replace an earlier one."""
    letters = [pair.split("=")[0].strip() for pair in answer.split(",")]
    return "" if len(letters) == len(set(letters)) else "a letter has two digits"


def _not_a_colouring_reason(answer: str, entry: Entry) -> str:
    """graph_color takes a list as a map from vertices to colours, and truth values as colours."""
    colouring = json_value(answer)
    plain = isinstance(colouring, dict) and all(type(colour) in (int, str) for colour in colouring.values())
    return "" if plain else "not an object that maps vertices to colours"


def _not_partitions_reason(answer: str, entry: Entry) -> str:
    """palindrome_partitioning reads a word as the list of its letters."""
    partitions = json_value(answer)
    if not isinstance(partitions, list) or not all(isinstance(parts, list) for parts in partitions):
        return "not a list of partitions"
    return "" if len(partitions) == len({json.dumps(parts) for parts in partitions}) else "not a list of partitions"


def _allowed_characters_guard(allowed: str, what: str) -> Guard:
    """kakurasu keeps the digits 0 and 1 of any text, survo whatever words are numbers."""
    whole = re.compile(rf"[{allowed}]*")
    return lambda answer, entry: "" if whole.fullmatch(answer) else f"not {what}"


def _unknown_word_reason(answer: str, entry: Entry) -> str:
    """knights_knaves skips every word that is neither a name nor a role, "or" and "not" as well."""
    words, known = (set(re.findall(r"\w+", text.lower())) for text in (answer, entry["answer"]))
    unknown_words = words - known - {"is", "a", "an", "and"}
    return f"{min(unknown_words)!r:.40} says something else" if unknown_words else ""


def _not_a_duration_reason(answer: str, entry: Entry) -> str:
    """time_intervals reads the numbers in front and ignores what follows."""
    whole = r"[+-]?(?:\d{1,9}(?: days?)?)?(?:,? ?\d{1,3}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?"
    return "" if re.fullmatch(whole, answer.strip(), re.ASCII) else "not a duration"


GUARDS_AFTER: dict[str, Guard] = {
    "advanced_geometry": _not_a_pair_reason,
    "calendar_arithmetic": _wrong_integer_reason,
    "chain_sum": _not_a_number_reason,
    "complex_arithmetic": _not_finite_reason,
    "cryptarithm": _ambiguous_mapping_reason,
    "figlet_font": _wrong_word_reason,
    "fraction_simplification": _not_a_fraction_reason,
    "game_of_life": _wrong_grid_reason,
    "game_of_life_halting": _wrong_word_reason,
    "graph_color": _not_a_colouring_reason,
    "gsm_symbolic": _wrong_single_number_reason,
    "kakurasu": _allowed_characters_guard(r"01\s\[\],", "a grid of 0 and 1"),
    "knights_knaves": _unknown_word_reason,
    "letter_jumble": _word_count_guard(None),
    "number_format": _wrong_candidate_reason,
    "number_sorting": _wrong_sorting_reason,
    "palindrome_partitioning": _not_partitions_reason,
    "polynomial_equations": _not_roots_reason,
    "pool_matrix": _wrong_shape_reason,
    "products": _not_a_number_reason,
    "spell_backward": _wrong_word_reason,
    "survo": _allowed_characters_guard(r"\d\s\[\],-", "a grid of numbers"),
    "time_intervals": _not_a_duration_reason,
    "word_sorting": _word_count_guard(","),
}
