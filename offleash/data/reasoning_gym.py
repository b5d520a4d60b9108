"""Reasoning Gym: its task names, and its Python values as JSON and back (tuples, sets, keys that are no strings).

Shared by the generator and the verifier. Imports neither the library (names are those of 0.1.25) nor Polars, so that
worker processes start fast.
"""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from math import isfinite
from typing import cast

from offleash.errors import OffleashError

TAG = "!"  # a JSON object with this key is one of ours: {"!": kind, "of": content}
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def encode_value(value: object) -> Json:
    """The value in JSON's own types; what JSON lacks becomes an object with its kind. Enums and NumPy turn plain."""
    match value:
        case Enum():
            return encode_value(value.value)
        case None | bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if isfinite(value) else _tagged_value("float", str(float(value)))
        case str():
            return str(value)  # numpy.str_ and the like lose their class here
        case list():
            return [encode_value(item) for item in value]
        case tuple():
            return _tagged_value("tuple", [encode_value(item) for item in value])
        case dict() if TAG not in value and all(isinstance(key, str) for key in value):
            return {str(key): encode_value(item) for key, item in value.items()}
        case dict():
            return _tagged_value("dict", [[encode_value(key), encode_value(item)] for key, item in value.items()])
        case set() | frozenset():
            # sorted: the order of a set changes from one process to the next, the file must not
            items: list[Json] = sorted((encode_value(item) for item in value), key=repr)
            return _tagged_value("frozenset" if isinstance(value, frozenset) else "set", items)
        case complex():
            return _tagged_value("complex", [encode_value(value.real), encode_value(value.imag)])
        case Fraction() | Decimal() | bytes():
            return _tagged_value(type(value).__name__, value.hex() if isinstance(value, bytes) else str(value))
        case datetime() | date() | time():
            return _tagged_value(type(value).__name__, value.isoformat())
        case timedelta():
            return _tagged_value("timedelta", [value.days, value.seconds, value.microseconds])
    return _library_value_json(value)


def decode_value(value: Json) -> object:
    """The value that was encoded."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: decode_value(item) for key, item in value.items()}
    kind, content = value[TAG], value.get("of")
    if not isinstance(kind, str) or kind not in KINDS:
        raise OffleashError(f"An encoded value has the unknown type {kind!r}. Known: {', '.join(sorted(KINDS))}.")
    return KINDS[kind](content)


def _tagged_value(kind: str, content: Json) -> Json:
    return {TAG: kind, "of": content}


def _library_value_json(value: object) -> Json:
    """NumPy's scalars and arrays, known by their methods: this file imports no library."""
    if type(value).__module__.partition(".")[0] == "numpy":
        to_plain = getattr(value, "tolist", None)
        if callable(to_plain):
            return encode_value(to_plain())
    raise OffleashError(f"A {type(value).__module__}.{type(value).__name__} cannot be stored as JSON: {value!r:.80}.")


def _items(content: Json) -> list[object]:
    if not isinstance(content, list):
        raise OffleashError(f"An encoded collection should hold a list; found {content!r:.80}.")
    return [decode_value(item) for item in content]


KINDS: dict[str, Callable[[Json], object]] = {
    "float": lambda content: float(cast(str, content)),
    "tuple": lambda content: tuple(_items(content)),
    "set": lambda content: set(_items(content)),
    "frozenset": lambda content: frozenset(_items(content)),
    "dict": lambda content: dict(cast(list[tuple[object, object]], _items(content))),
    "complex": lambda content: complex(*cast(list[float], _items(content))),
    "Fraction": lambda content: Fraction(cast(str, content)),
    "Decimal": lambda content: Decimal(cast(str, content)),
    "bytes": lambda content: bytes.fromhex(cast(str, content)),
    "datetime": lambda content: datetime.fromisoformat(cast(str, content)),
    "date": lambda content: date.fromisoformat(cast(str, content)),
    "time": lambda content: time.fromisoformat(cast(str, content)),
    "timedelta": lambda content: timedelta(*cast(list[int], _items(content))),
}

# `composite`, the 106th name the library registers, mixes other tasks: it is not one itself.
# fmt: off
TASKS: tuple[str, ...] = (
    "ab", "acre", "advanced_geometry", "aiw", "arc_1d", "arc_agi", "base_conversion", "basic_arithmetic", "bf",
    "binary_alternation", "binary_matrix", "bitwise_arithmetic", "boxnet", "caesar_cipher", "calendar_arithmetic",
    "chain_sum", "circuit_logic", "codeio", "coin_flip", "color_cube_rotation", "complex_arithmetic", "count_bits",
    "count_primes", "countdown", "course_schedule", "cryptarithm", "decimal_arithmetic", "decimal_chain_sum", "dice",
    "emoji_mystery", "family_relationships", "figlet_font", "fraction_simplification", "futoshiki", "game_of_life",
    "game_of_life_halting", "gcd", "graph_color", "group_anagrams", "gsm_symbolic", "intermediate_integration",
    "isomorphic_strings", "jugs", "kakurasu", "knight_swap", "knights_knaves", "largest_island", "lcm", "leg_counting",
    "letter_counting", "letter_jumble", "list_functions", "mahjong_puzzle", "manipulate_matrix", "maze", "mini_sudoku",
    "modulo_grid", "n_queens", "needle_haystack", "number_filtering", "number_format", "number_sequence",
    "number_sorting", "palindrome_generation", "palindrome_partitioning", "path_star", "polynomial_equations",
    "polynomial_multiplication", "pool_matrix", "power_function", "prime_factorization", "products",
    "propositional_logic", "puzzle24", "quantum_lock", "ransom_note", "rearc", "rectangle_count", "rotate_matrix",
    "rotten_oranges", "rubiks_cube", "rush_hour", "self_reference", "sentence_reordering", "shortest_path",
    "simple_equations", "simple_geometry", "simple_integration", "sokoban", "spell_backward", "spiral_matrix",
    "string_insertion", "string_manipulation", "string_splitting", "string_synthesis", "sudoku", "survo", "syllogism",
    "time_intervals", "tower_of_hanoi", "tsumego", "word_ladder", "word_sequence_reversal", "word_sorting",
    "zebra_puzzles",
)
