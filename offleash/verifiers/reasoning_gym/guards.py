"""Which texts a Reasoning Gym scorer is not asked about: those it would evaluate, or that would keep it for hours.

A guard returns a reason, or nothing. Found by reading the scorers of version 0.1.25; a guard never credits.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from offleash.verifiers.arithmetic import NotArithmeticError
from offleash.verifiers.countdown import Rules, way
from offleash.verifiers.reasoning_gym.expressions import not_a_formula, not_a_literal
from offleash.verifiers.repairs import repaired

Entry = Mapping[str, Any]
Guard = Callable[[str, Entry], str]

LONGEST_ANSWER = 100_000  # characters beyond four times the gold answer: above it no scorer is asked
MOVES = 5_000  # characters of moves of a cube, a car or a player
NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:,\d{3}){0,100}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,3})?", re.ASCII)


def unfit(task: str, answer: str, entry: Entry) -> str:
    """Why the scorer is not asked about this text, or nothing."""
    gold = entry["answer"]
    if len(answer) > LONGEST_ANSWER + 4 * len(gold or ""):
        return f"{len(answer)} characters are no answer"
    if not answer.strip() and (gold is None or gold.strip()):
        return "there is no answer"
    return BEFORE[task](answer, entry) if task in BEFORE else ""


def as_scored(task: str, answer: str, entry: Entry) -> str:
    """The text as the scorer has to see it: rush_hour takes the n-th letter for the n-th car, but boards skip some."""
    if task != "rush_hour":
        return answer
    cars = sorted(set(entry["metadata"]["board_config"]) - {"o", "x"})
    return answer.translate({ord(car): chr(ord("A") + place) for place, car in enumerate(cars)})


def sums_rules(entry: Entry) -> Rules:
    """The rules of a countdown or puzzle24: all numbers, each once, and exactly the target."""
    return Rules(tuple(entry["metadata"]["numbers"]), entry["metadata"].get("target", 24), all=True)


def json_value(text: str) -> Any:
    """The JSON value; the text itself, which equals no value asked for, when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _probability(answer: str, entry: Entry) -> str:
    """coin_flip credits what begins with the same digits (0 for 0.25); a part in ten thousand off is close enough."""
    text = answer.strip()
    fraction = re.fullmatch(r"\+?(\d{1,60})\s?/\s?(\d{1,60})", text, re.ASCII)
    if not fraction and not NUMBER.fullmatch(text):
        return "not a number"
    if fraction and not int(fraction[2]):
        return "it divides by zero"
    value = Fraction(int(fraction[1]), int(fraction[2])) if fraction else Fraction(text.replace(",", ""))
    exact = Fraction(entry["metadata"]["rational"]["numerator"], entry["metadata"]["rational"]["denominator"])
    return "" if abs(value - exact) <= min(Fraction(1, 10_000), exact / 100) else f"not {float(exact):.10g}"


def _buttons(answer: str, entry: Entry) -> str:
    """quantum_lock picks the letters A, B, C out of any text."""
    if not re.fullmatch(r"[\sABCabc→>,;\-–\[\]()'\"]*", answer):
        return "not a sequence of buttons"
    return "" if len(answer) <= MOVES else "too many buttons"


def _moves(pattern: str, what: str) -> Guard:
    """sokoban plays the letters of any text, rush_hour and rubiks_cube run one move a billion times."""
    move = re.compile(pattern)

    def guard(answer: str, entry: Entry) -> str:
        words = answer.split() if len(answer) <= MOVES else []
        return "" if words and all(move.fullmatch(word) for word in words) else f"not {what}"

    return guard


def _cars(answer: str, entry: Entry) -> str:
    """rush_hour ignores cars that are not there."""
    on_board = "".join(sorted(set(entry["metadata"]["board_config"]) - {"o", "x"}))
    return _moves(rf"(?:[{on_board}][+-]\d{{1,2}},?)+", "moves of the cars on the board")(answer, entry)


def _statement(answer: str, entry: Entry) -> str:
    """propositional_logic takes any text as a variable; 40 of them are 2^40 cases, and brackets recurse."""
    operand_next, depth = True, 0
    for character in answer if len(answer) <= 500 else "?":
        if character.isspace():
            continue
        if operand_next and character in "¬(":
            depth += character == "("
        elif operand_next and character in entry["metadata"]["variables"]:
            operand_next = False
        elif not operand_next and character == ")" and depth:
            depth -= 1
        elif not operand_next and character in "∧∨→↔":
            operand_next = True
        else:
            return f"{character!r} cannot stand where it does"
    return "" if not operand_next and not depth and answer.count("(") + answer.count("¬") <= 100 else "not a statement"


def _box_moves(answer: str, entry: Entry) -> str:
    """boxnet would also carry the targets to the boxes."""
    found = json_value(answer)
    if not isinstance(found, list) or not all(isinstance(step, dict) for step in found) or len(found) > MOVES:
        return "not a list of actions"
    moves = [(agent, move) for step in found for agent, move in step.items()]
    box = re.compile(r"move\(box_\w{1,30}, [\w\[\]., ]{1,60}\)")
    good = all(isinstance(move, str) and box.fullmatch(move.strip()) and len(agent) < 60 for agent, move in moves)
    return "" if good else "an action that moves no box"


def _data(answer: str, entry: Entry) -> str:
    """codeio credits long data with a wrong value in it, and compares the trees of large ones for hours."""
    first, last = answer.find("{"), answer.rfind("}")
    if answer.strip() == entry["answer"].strip() or first < 0:
        return ""
    found, wanted = json_value(answer[first : last + 1]), json_value(entry["answer"])
    return "" if found == wanted or len(answer) + len(entry["answer"]) <= 400 else "other data"


def _literal(strings: bool) -> Guard:
    """string_insertion, spiral_matrix, binary_matrix, n_queens: what is not the answer as asked for goes to `eval`."""

    def guard(answer: str, entry: Entry) -> str:
        right: Sequence[str] = entry["metadata"].get("valid_answers") or (entry["answer"],)
        return "" if answer in right or answer.strip() in right else not_a_literal(answer, strings)

    return guard


def _sums(answer: str, entry: Entry) -> str:
    """countdown allows an error of 0.01 and any function; puzzle24 drops decimals and takes any four numbers."""
    if re.search(r"[=\n,;]", answer.strip()) or repaired(answer) != answer.strip():
        return "not one plain expression"
    try:
        way(answer, sums_rules(entry))
    except NotArithmeticError as fault:
        return str(fault)
    return ""


def _formula(answer: str, entry: Entry) -> str:
    """The integrations give full marks to Integral(...), polynomial_multiplication to expand(...); all three run it."""
    metadata = entry["metadata"]
    if "variable" in metadata:
        return not_a_formula(answer, [metadata["variable"], "c", "k", "K"])
    return not_a_formula(answer, metadata["variables"], functions=())


BEFORE: dict[str, Guard] = {
    "binary_matrix": _literal(strings=True),
    "boxnet": _box_moves,
    "codeio": _data,
    "coin_flip": _probability,
    "countdown": _sums,
    "intermediate_integration": _formula,
    "n_queens": _literal(strings=True),
    "polynomial_multiplication": _formula,
    "propositional_logic": _statement,
    "puzzle24": _sums,
    "quantum_lock": _buttons,
    "rubiks_cube": _moves(r"[UDLRFBudlrfbMESxyz]w?'?[1-4]?'?", "moves of the cube"),
    "rush_hour": _cars,
    "simple_integration": _formula,
    "sokoban": _moves("[UDLR]+", "moves of the player"),
    "spiral_matrix": _literal(strings=False),
    "string_insertion": _literal(strings=True),
}
