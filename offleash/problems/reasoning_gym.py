"""Problems of Reasoning Gym (Stojanovski et al., arXiv:2505.24760): 105 tasks, two levels, sets that never overlap.

A problem carries all that the task's scorer needs (`details`: task, config, entry), so verifying generates nothing.
The settings of the level `hard` are the table at the end.
"""

import io
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import polars as pl

from offleash.data.reasoning_gym import TASKS, encode_value
from offleash.data.tables import as_problems, question_hash
from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    from types import ModuleType

Row = dict[str, str | None]

# Item i of the library is drawn with seed + i: neighbouring seeds share nearly all items, so ours lie this far apart.
SEED_STRIDE = 1_000_000
TRIES_PER_PROBLEM = 50  # items tried per problem wanted, before giving up: some tasks have few different questions

# many answers are right and the library names none: their gold is null
TASKS_WITHOUT_GOLD = frozenset({"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"})

# today's date, put into the metadata of a question about hours: no scorer reads it, and a set must not change overnight
DATE_FIELDS: dict[str, tuple[str, ...]] = {"time_intervals": ("start_time", "end_time")}


# what the library draws for these follows the order of a set, which changes from one process to the next
HASHED = frozenset(
    {
        "codeio",
        "intermediate_integration",
        "isomorphic_strings",
        "knight_swap",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
    }
)


def generate(task: str, size: int, seed: int, level: str = "easy") -> pl.DataFrame:
    """Different problems of a task.

    Args:
        task: A task of the library.
        size: How many. A longer set begins with the shorter one of the same seed.
        seed: Sets of different seeds share no item (see STRIDE).
        level: "easy" (the library's defaults) or "hard" (the table HARD_SETTINGS).

    Returns:
        Problems in the PROBLEMS schema, the same at every call and in every process.
    """
    if task not in TASKS:
        raise unknown("Reasoning Gym task", task, TASKS)
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    _check_bounds(task, size, seed)
    _library()
    own_process = task in HASHED and os.environ.get("PYTHONHASHSEED") != "0"
    rows = _rows_from_subprocess(task, size, seed, level) if own_process else _rows(task, size, seed, level)
    if len(rows) < size:
        raise OffleashError(
            f"{task} at level {level!r} has only {len(rows)} different questions in {size * TRIES_PER_PROBLEM} draws. "
            f"Use --size {len(rows)} or fewer."
        )
    return as_problems(pl.DataFrame(rows, infer_schema_length=None))


def library_seed(seed: int, index: int) -> int:
    """The seed with which the library draws item `index` of our set `seed`: no two sets share one."""
    return seed * SEED_STRIDE + index


def _check_bounds(task: str, size: int, seed: int) -> None:
    """Sizes and seeds for which sets of different seeds share no item."""
    if not 0 < size * TRIES_PER_PROBLEM <= SEED_STRIDE:
        raise OffleashError(
            f"A Reasoning Gym set has 1 to {SEED_STRIDE // TRIES_PER_PROBLEM} problems; found --size {size}."
        )
    if seed < 0:  # the library's generator drops the sign: -1 would draw what 1 draws
        raise OffleashError(f"A Reasoning Gym seed must be 0 or more; found {seed}.")
    # pool_matrix seeds NumPy, which takes 32 bits
    if task == "pool_matrix" and library_seed(seed, size * TRIES_PER_PROBLEM) >= 2**32:
        largest = (2**32 - size * TRIES_PER_PROBLEM) // SEED_STRIDE
        raise OffleashError(f"pool_matrix takes seeds up to {largest} at this size; found {seed}.")


def _library() -> "ModuleType":
    """The library, or how to install it."""
    try:
        import reasoning_gym
    except ModuleNotFoundError as missing:
        raise OffleashError(
            f"Reasoning Gym problems need the module {missing.name!r}, which is not installed: "
            "pip install 'offleash[gym]'."
        ) from missing
    module: ModuleType = reasoning_gym
    return module


def _rows_from_subprocess(task: str, size: int, seed: int, level: str) -> list[Row]:
    """The rows from a process with a fixed PYTHONHASHSEED, which can be set only when Python starts."""
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    command = [sys.executable, "-P", "-W", "ignore", "-m", __spec__.name, task, str(size), str(seed), level]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    if completed.returncode:
        last = (completed.stderr.strip().splitlines() or ["no message"])[-1]
        raise OffleashError(f"Generating {size} problems of {task} failed: {last}")
    rows: list[Row] = json.loads(completed.stdout)
    return rows


def _rows(task: str, size: int, seed: int, level: str) -> list[Row]:
    """The first `size` items whose question is new; a task with few questions repeats them, a set counts each once."""
    dataset_class, config_class = _library().factory.DATASETS[task]
    settings = HARD_SETTINGS.get(task, {}) if level == "hard" else {}
    # The size is that of all items tried: tasks that precompute something do it for as many as may be needed.
    config = config_class(seed=library_seed(seed, 0), size=size * TRIES_PER_PROBLEM, **settings)
    with _fixed_randomness(task, library_seed(seed, 0)):
        dataset = dataset_class(config)
    rows: dict[str, Row] = {}
    for index in range(size * TRIES_PER_PROBLEM):
        with _fixed_randomness(task, library_seed(seed, index)):
            try:
                entry: dict[str, Any] = dataset[index]
            except ValueError:  # "failed to generate after 100 tries": the library has no item for this seed
                continue
        if not entry["metadata"].get("input_data", True) and not entry["metadata"]["output_data"]:
            continue  # codeio, when its program crashed: neither input nor output
        row = _row(task, level, seed, index, entry, _scoring_settings(config))
        rows.setdefault(str(row["hash"]), row)
        if len(rows) == size:
            break
    return list(rows.values())


@contextmanager
def _fixed_randomness(task: str, seed: int) -> Iterator[None]:
    """The global generators, seeded for one item and restored; what a task prints or warns about is not shown.

    codeio runs programs and list_functions draws numbers that use the global generators, whatever the item's seed.
    """
    import numpy as np

    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - the library uses the global one
    words = blake2b(f"{task}-{seed}".encode(), digest_size=8).digest()
    random.seed(int.from_bytes(words))
    np.random.seed(int.from_bytes(words[:4]))  # noqa: NPY002
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files left open and the like are the library's affair
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


def _scoring_settings(config: Any) -> dict[str, object]:
    """The settings in force that JSON can carry; the rest (how an ARC board is written) keep the library's defaults."""
    values: dict[str, object] = {}
    for field in fields(config):
        if field.name not in ("seed", "size"):
            try:
                values[field.name] = encode_value(getattr(config, field.name))
            except OffleashError:
                continue
    return values


def _row(task: str, level: str, seed: int, index: int, entry: Mapping[str, Any], config: Mapping[str, object]) -> Row:
    metadata = {key: value for key, value in entry["metadata"].items() if key not in DATE_FIELDS.get(task, ())}
    stored_entry = {"question": entry["question"], "answer": entry["answer"], "metadata": metadata}
    details = {"task": task, "config": config, "entry": encode_value(stored_entry)}
    return {
        "problem": f"{task}-{level}-{seed}-{index}",
        "hash": question_hash(entry["question"]),
        "question": entry["question"],
        "gold": _gold(entry["answer"]),
        "benchmark": f"reasoning_gym:{task}",
        "verifier": "reasoning_gym",
        "details": json.dumps(details, sort_keys=True),
    }


def _gold(answer: str | None) -> str | None:
    """The library's answer; an integral that it left standing (one intermediate_integration in seven) is worked out."""
    if answer is None or "Integral(" not in answer:
        return answer
    import sympy

    return str(sympy.parse_expr(answer).doit())


# The two levels of a task: "easy" is the library's defaults, "hard" the settings of the table below.
#
# Most rows are the harder of the two settings that the library's authors evaluate with (Stojanovski et al.,
# "Reasoning Gym", arXiv:2505.24760, and the configurations published beside it), under the field names of version
# 0.1.25. Where those are not harder than today's defaults, or a task has none, the row takes a higher level of the
# task's own curriculum (marked: curriculum). The curricula as a whole do not serve: their ranges start at the lowest
# level and several top levels are easier than the defaults, fail the task's own checks, or do not end.


Settings = dict[str, int | float | bool | str | list[int] | list[float] | list[str]]

LEVELS = ("easy", "hard")

# no harder setting exists: the library gives these no knob that makes them harder ("hard" draws them as "easy" does)
NO_HARD_LEVEL = frozenset(
    {"acre", "arc_agi", "gsm_symbolic", "list_functions", "puzzle24", "quantum_lock", "syllogism"}
)

HARD_SETTINGS: dict[str, Settings] = {
    "ab": {"length": 25},
    "advanced_geometry": {"min_coord": -100, "max_coord": 100},
    "aiw": {"task_type_weights": [0.5, 0.25, 0.25], "max_entities": 10},
    "arc_1d": {"min_size": 25, "max_size": 50},
    "base_conversion": {"min_base": 9, "max_base": 18, "min_value": 10000, "max_value": 100000},
    # published with 10 terms of 5 digits, whose common divisors the library tries one by one, for hours
    "basic_arithmetic": {"min_terms": 5, "max_terms": 7, "min_digits": 2, "max_digits": 3},
    "bf": {"difficulty": 2},
    "binary_alternation": {"min_n": 50, "max_n": 500},
    "binary_matrix": {"p_zero": 0.25, "min_n": 25, "max_n": 50},
    "bitwise_arithmetic": {"difficulty": 5},
    "boxnet": {"min_row_num": 4, "max_row_num": 6, "min_column_num": 4, "max_column_num": 6, "max_box_num": 3},  # curr.
    "caesar_cipher": {"min_rotation": 15, "max_rotation": 25, "min_words": 15, "max_words": 25},
    "calendar_arithmetic": {"offset_upper_bound": 365},  # curriculum
    "chain_sum": {"min_terms": 5, "max_terms": 8, "min_digits": 4, "max_digits": 6},
    "circuit_logic": {"min_terms": 10, "max_terms": 20, "min_inputs": 4, "max_inputs": 8},
    "codeio": {"difficulty": 7},
    "coin_flip": {"min_trials": 12, "max_trials": 20},  # curriculum, and beyond
    "color_cube_rotation": {"min_rotations": 10, "max_rotations": 50},
    "complex_arithmetic": {
        "min_real": -100,
        "max_real": 100,
        "min_imag": -100,
        "max_imag": 100,
        "operations_weights": [0.25, 0.25, 0.25, 0.25],
    },
    "count_bits": {"min_n": 100_000_000},  # curriculum
    "count_primes": {"min_n": 10000, "max_n": 50000},
    "countdown": {
        "min_numbers": 6,
        "max_numbers": 9,
        "min_target": 100,
        "max_target": 1000,
        "min_value": 1,
        "max_value": 250,
    },
    "course_schedule": {
        "min_num_courses": 25,
        "max_num_courses": 50,
        "min_num_prerequisites": 3,
        "max_num_prerequisites": 4,
        "min_cycle_length": 3,
        "max_cycle_length": 4,
    },
    "cryptarithm": {"min_words": 5, "max_words": 10},
    "decimal_arithmetic": {
        "min_num_decimal_places": 5,
        "max_num_decimal_places": 8,
        "precision": 10,
        "min_terms": 5,
        "max_terms": 8,
    },
    "decimal_chain_sum": {
        "min_terms": 5,
        "max_terms": 8,
        "min_digits": 4,
        "max_digits": 8,
        "min_decimal_places": 4,
        "max_decimal_places": 6,
    },
    "dice": {"num_dice": 6, "max_dice_size": 25},
    "emoji_mystery": {"min_words_in_sentence": 20, "max_words_in_sentence": 40},
    "family_relationships": {"min_family_size": 5, "max_family_size": 9},
    "figlet_font": {"min_word_len": 5, "max_word_len": 10},
    "fraction_simplification": {"min_value": 100, "max_value": 1000, "min_factor": 10, "max_factor": 100},
    "futoshiki": {"min_board_size": 6, "max_board_size": 7, "min_difficulty": 2},  # curriculum
    "game_of_life": {"grid_size_x": 50, "grid_size_y": 50, "filled_cells_weights": 0.2, "simulation_steps": 2},
    "game_of_life_halting": {  # the published 50 x 50 is printed with dots instead of its cells
        "grid_size_x": 30,
        "grid_size_y": 30,
        "difficulty": 2,
        "num_oscillators": 7,
        "max_simulation_steps": 50,
    },
    "gcd": {"min_numbers": 3, "max_numbers": 4, "min_value": 1000, "max_value": 10000},
    "graph_color": {"min_num_vertices": 10, "max_num_vertices": 20, "num_colors": 4},
    "group_anagrams": {
        "min_anagram_groups": 10,
        "max_anagram_groups": 50,
        "min_words_per_group": 2,
        "max_words_per_group": 5,
    },
    "intermediate_integration": {"problem_type_weights": [0, 0, 0, 1, 0, 0, 0, 0]},
    "isomorphic_strings": {"min_string_length": 50, "max_string_length": 100},
    "jugs": {
        "difficulty": 15
    },  # curriculum: the published 50 does not end, and of four jugs the library knows no solution
    "kakurasu": {"min_rows": 6, "max_rows": 7, "min_cols": 6, "max_cols": 7},  # curriculum
    "knight_swap": {
        "min_nodes": 8,
        "max_nodes": 10,
        "min_steps": 8,
        "max_steps": 30,
    },  # curriculum: of the published many fail
    "knights_knaves": {"n_people": 3, "depth_constraint": 3, "width_constraint": 3},
    "largest_island": {
        "min_rows": 25,
        "max_rows": 50,
        "min_cols": 25,
        "max_cols": 50,
        "min_num_islands": 5,
        "max_num_islands": 10,
        "min_island_size": 5,
        "max_island_size": 20,
    },
    "lcm": {"min_numbers": 3, "max_numbers": 4, "min_value": 1000, "max_value": 10000},
    "leg_counting": {"min_animals": 20, "max_animals": 30, "min_instances": 64, "max_instances": 256},
    "letter_counting": {"min_words": 25, "max_words": 50},
    "letter_jumble": {
        "min_word_len": 5,
        "max_word_len": 30,
        "min_words": 25,
        "max_words": 50,
        "min_corruption_level": 0.5,
    },
    "mahjong_puzzle": {"min_num_rounds": 50, "max_num_rounds": 100},
    "manipulate_matrix": {
        "min_rows": 25,
        "max_rows": 50,
        "min_cols": 25,
        "max_cols": 50,
        "min_transforms": 3,
        "max_transforms": 10,
    },
    "maze": {"min_grid_size": 25, "max_grid_size": 50, "min_dist": 25, "max_dist": 50},
    "mini_sudoku": {"min_empty": 10, "max_empty": 12},  # curriculum
    "modulo_grid": {"size_x": 40, "size_y": 40, "max_holes": 5, "max_divisor": 7, "max_target": 3},
    "n_queens": {"n": 8, "min_remove": 4, "max_remove": 6},
    "needle_haystack": {"min_num_statements": 100, "max_num_statements": 500},
    "number_filtering": {
        "min_numbers": 50,
        "max_numbers": 100,
        "min_decimals": 2,
        "max_decimals": 4,
        "min_value": -500,
        "max_value": 500,
    },
    "number_format": {
        "min_num_candidates": 25,
        "max_num_candidates": 100,
        "min_n": 100000,
        "max_n": 1000000,
        "max_delta": 0.001,
    },
    "number_sequence": {"min_terms": 8, "max_terms": 12, "min_value": -500, "max_value": 500, "max_complexity": 3},
    "number_sorting": {
        "min_numbers": 50,
        "max_numbers": 100,
        "min_decimals": 2,
        "max_decimals": 4,
        "min_value": -500,
        "max_value": 500,
    },
    "palindrome_generation": {"min_length": 50, "max_length": 100},
    "palindrome_partitioning": {
        "min_string_len": 15,
        "max_string_len": 20,
    },  # curriculum: the published 100 does not end
    "path_star": {"degree": 5, "min_path_length": 6, "max_path_length": 7},  # curriculum
    "polynomial_equations": {"min_degree": 2, "max_degree": 3, "min_terms": 3, "max_terms": 4},
    "polynomial_multiplication": {
        "min_terms": 4,
        "max_terms": 8,
        "min_value": 10,
        "max_value": 10000,
        "min_degree": 1,
        "max_degree": 4,
        "min_polynomials": 3,
        "max_polynomials": 6,
    },
    "pool_matrix": {
        "min_rows": 25,
        "max_rows": 50,
        "min_cols": 25,
        "max_cols": 50,
        "min_pool_size": 5,
        "max_pool_size": 7,
    },
    "power_function": {"min_exponent": 4, "max_exponent": 8},
    "prime_factorization": {"min_value": 1000, "max_value": 5000},
    "products": {"min_terms": 4, "max_terms": 8, "min_digits": 4, "max_digits": 8},
    "propositional_logic": {
        "min_vars": 4,
        "max_vars": 8,
        "min_statements": 4,
        "max_statements": 8,
        "min_complexity": 2,
        "max_complexity": 4,
    },
    "ransom_note": {
        "min_note_length": 50,
        "max_note_length": 100,
        "min_magazine_length": 100,
        "max_magazine_length": 500,
    },
    "rearc": {"pso_difficulty_weights": [0, 0, 0, 1, 0, 0, 0], "rng_difficulty_weights": [0, 0, 0, 1, 0, 0, 0]},
    "rectangle_count": {"max_rectangles": 15},
    "rotate_matrix": {"min_n": 25, "max_n": 50, "min_rotations": 5, "max_rotations": 15},
    "rotten_oranges": {"min_n": 25, "max_n": 50},
    # published with 5 layers, whose inner moves (2R) the scorer drops without a word
    "rubiks_cube": {"min_scramble_steps": 25, "max_scramble_steps": 50},
    "rush_hour": {"min_moves": 25, "max_moves": 50},
    "self_reference": {"difficulty": 7},  # curriculum
    "sentence_reordering": {"min_words_in_sentence": 20, "max_words_in_sentence": 50},
    "shortest_path": {"min_rows": 25, "max_rows": 50, "min_cols": 25, "max_cols": 50},
    "simple_equations": {
        "min_terms": 3,
        "max_terms": 10,
        "min_value": 10,
        "max_value": 10000,
        "operators_weights": [0.35, 0.35, 0.3],
    },
    "simple_geometry": {"min_sides": 10, "max_sides": 15},
    "simple_integration": {"min_terms": 4, "max_terms": 5},  # curriculum
    "sokoban": {"min_w": 10, "max_w": 15, "min_h": 10, "max_h": 15},
    "spell_backward": {"min_word_len": 7},  # curriculum: the published words of 20 are not in the library
    "spiral_matrix": {"min_n": 25, "max_n": 50},
    "string_insertion": {"min_string_length": 50, "max_string_length": 100},
    "string_manipulation": {"min_string_length": 50, "max_string_length": 100},
    "string_splitting": {"min_initial_machines": 50, "max_initial_machines": 100},
    "string_synthesis": {"min_initial_blocks": 50, "max_initial_blocks": 100},
    "sudoku": {"min_empty": 40, "max_empty": 55},  # curriculum
    "survo": {"min_board_size": 5, "max_board_size": 6, "min_empty": 7, "max_empty": 9},  # curriculum
    "time_intervals": {"max_date_difference_days": 365},  # curriculum
    "tower_of_hanoi": {"min_disks": 5, "max_disks": 10, "min_pegs": 3, "max_pegs": 4},
    "tsumego": {"min_board_size": 13, "max_board_size": 19},  # curriculum
    "word_ladder": {"min_word_length": 3, "max_word_length": 5},
    "word_sequence_reversal": {"min_words": 25, "max_words": 50},
    "word_sorting": {"min_words": 25, "max_words": 50, "min_word_length": 5, "max_word_length": 10},
    "zebra_puzzles": {"num_people": 5, "num_characteristics": 5},
}

if __name__ == "__main__":
    json.dump(_rows(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]), sys.stdout)
