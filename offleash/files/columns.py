"""Which column of a user's table is which: by its usual names, or as --map says.

A role (question, gold, verdict, ...) is our name of a column. The tables below say by which names each role is known,
the most specific first; `guess_columns` is the one guesser of problem files, logs of samples and tables of counts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from offleash.data.tables import Note
from offleash.errors import OffleashError

Names = Mapping[str, tuple[str, ...]]

_QUESTION = (
    "question",
    "problem",
    "prompt",
    "problem_text",
    "question_text",
    "problem_statement",
    "question_content",
    "query",
    "instruction",
    "input",
)
_ID = (
    "problem_id",
    "task_id",
    "question_id",
    "unique_id",
    "qid",
    "doc_id",
    "prompt_id",
    "example_id",
)
_GOLD = (
    "gold",
    "gold_answer",
    "reward_model.ground_truth",
    "ground_truth",
    "answer",
    "final_answer",
    "expected_answer",
    "reference_answer",
    "correct_answer",
    "target",
    "label",
    "answers",
    "gt",
    "answerkey",
    "reference",
    "solution",
    "canonical_solution",
)
# In a log these may be what the model wrote; which of the two decides what else is there (logs/columns.py).
_MODEL_WRITTEN = ("answer", "final_answer", "correct_answer", "answers", "answerkey", "solution", "canonical_solution")
_BENCHMARK = ("benchmark", "data_source", "dataset", "dataset_name")
_GUESS = ("guess", "guess_rate")

# The order of roles matters too: a name of several meanings ("prompt", "problem", "text") is last in each list it is
# in, and goes to the first role that has no better column.
PROBLEM_COLUMNS: Names = {
    "question": (*_QUESTION, "text"),
    # uid and pid are ids of problems here; in a log they may be those of a sample or of a process
    "problem": (*_ID, "uid", "pid", "extra_info.uid", "extra_info.id", "id", "idx", "index", "problem"),
    "gold": _GOLD,
    "choices": ("choices", "options", "answer_choices"),
    "images": ("images", "image"),
    "verifier": ("verifier",),
    "details": ("details",),
    "benchmark": (*_BENCHMARK, "source"),
    "guess": _GUESS,
    "prompt": ("prompt",),
}

SAMPLE_COLUMNS: Names = {
    "problem": (*_ID, "id", "idx"),
    "question": _QUESTION,
    "text": (
        "completion",
        "completions",
        "response",
        "responses",
        "generation",
        "generations",
        "generated_text",
        "model_output",
        "output",
        "outputs",
        "output_list",
        "text",
        "texts",
        "samples",
        "code",
    ),
    "verdict": (
        "verdict",
        "verdicts",
        "correct",
        "is_correct",
        "file_correct",
        "passed",
        "correctness",
        "success",
        "graded_list",
        "exact_match",
        "accuracy",
        "acc",
        "score",
        "scores",
        "reward",
        "rewards",
    ),
    "gold": tuple(name for name in _GOLD if "." not in name and name not in _MODEL_WRITTEN),
    "answer": (
        "predicted_answer",
        "extracted_answer",
        "model_answer",
        "parsed_answer",
        "pred",
        "prediction",
        "extracted",
        "file_pred",
        "answers",
    ),
    "sample": (
        "sample",
        "sample_id",
        "sample_index",
        "sample_idx",
        "completion_id",
        "rollout",
        "rollout_id",
        "attempt",
        "trial",
        "repeat",
        "index",
        "seed",
    ),
    "benchmark": (*_BENCHMARK, "task", "task_name", "source"),
    "guess": (*_GUESS, "chance"),
    "tokens": ("tokens", "num_tokens", "n_tokens", "completion_tokens", "output_tokens", "num_generated_tokens"),
    "finish": ("finish", "finish_reason", "stop_reason"),
}

COUNT_COLUMNS: Names = {
    "problem": (*SAMPLE_COLUMNS["problem"], "problem"),
    **{role: SAMPLE_COLUMNS[role] for role in ("question", "gold", "benchmark", "guess")},
    "n": ("n", "total", "num_samples", "n_samples", "trials", "samples", "attempts"),
    "c": ("c", "correct", "num_correct", "n_correct", "passes", "successes", "passed"),
}


def guess_columns(
    names: Names, columns: Sequence[str], mapped: Mapping[str, str], used: Collection[str] = ()
) -> dict[str, str]:
    """The column of each role. Case, spaces and hyphens do not matter, and no column has two roles.

    Args:
        names: The usual names of each role, in order of preference.
        columns: The columns of the file.
        mapped: --map: role -> column. An empty column leaves the role without one.
        used: Columns that have another use already (--split-by).

    Returns:
        Role -> column, the mapped ones first; roles without a column are not in it.

    >>> guess_columns({"gold": ("gold", "answer"), "question": ("question",)}, ["Question", "answer"], {})
    {'gold': 'answer', 'question': 'Question'}
    """
    chosen = {role: column for role, column in mapped.items() if column}
    taken = {*chosen.values(), *used}
    normal = {name.strip().lower().replace("-", "_").replace(" ", "_"): name for name in reversed(columns)}
    for role, usual in names.items():
        if role in mapped:
            continue
        column = next((normal[name] for name in usual if name in normal and normal[name] not in taken), None)
        if column is not None:
            chosen[role] = column
            taken.add(column)
    return chosen


def require_column(name: str, columns: Sequence[str], path: Path, option: str) -> str:
    """A column that the user named with an option; refused with the columns there are when the file has none such."""
    if name in columns:
        return name
    near = get_close_matches(name, columns, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = ", ..." if len(columns) > 40 else ""
    raise OffleashError(f"{path} has no column {name!r} ({option}).{hint} Columns: {', '.join(columns[:40])}{more}.")


def columns_note(path: Path, chosen: Mapping[str, str], unused: Sequence[str], hint: str = "") -> Note:
    """What was read from where, so that a wrong guess shows and can be corrected with --map."""
    pairs = ", ".join(f"{role} <- {column}" for role, column in chosen.items())
    rest = f"; not used: {', '.join(unused[:12])}" if unused else ""
    return Note(f"{path.name}: read {pairs}{rest}. --map NAME=COLUMN changes it.{hint}")


def value_at(values: Mapping[str, object], column: str) -> object:
    """The value of a column; `reward_model.ground_truth` is the field of an object."""
    if column in values:
        return values[column]
    outer, _, inner = column.partition(".")
    below = values.get(outer)
    return below.get(inner) if isinstance(below, Mapping) else None


def all_columns(rows: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Every column of any row, and the fields of those that are objects, in the order in which they come."""
    names: dict[str, None] = {}
    for values in rows:
        for name, value in values.items():
            if name not in names:
                names[name] = None
            if isinstance(value, Mapping):
                names.update(dict.fromkeys(f"{name}.{inner}" for inner in value))
    return tuple(names)
