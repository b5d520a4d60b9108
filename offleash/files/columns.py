"""Which column of a user's table is which: by its usual names, or as --map says.

A role (question, gold, verdict, ...) is our name of a column. The tables below say by which names each role is known,
the most specific first; `guess_columns` is the one guesser of problem files, logs of samples and tables of counts.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    "prompt_text",
    "user_prompt",
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
    "item_id",
    "instance_id",
    "query_id",
    "problem_idx",
    "question_idx",
    "prompt_idx",
    "task_idx",
    "q_idx",
    "problem_index",
    "question_index",
    "problem_name",
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
    "gts",
    "golds",
    "gold_answers",
    "ground_truths",
    "true_answer",
    "gt_answer",
    "canonical_answer",
    "gold_label",
    "expected",
    "answer_key",
    "answerkey",
    "reference",
    "solution",
    "canonical_solution",
)
# In a log these may be what the model wrote; which of the two decides what else is there (logs/columns.py).
_MODEL_WRITTEN = ("answer", "final_answer", "correct_answer", "answers", "answerkey", "solution", "canonical_solution")
_CHOICES = ("choices", "options", "answer_choices")
_IMAGES = ("images", "image")
# Verdicts only where they hold true or false, or a word such as passed.
AMBIGUOUS_VERDICT_NAMES = ("judgement", "judgment", "grade", "grades", "result", "outcome", "status", "label")
_BENCHMARK = ("benchmark", "data_source", "dataset", "dataset_name")
_GUESS = ("guess", "guess_rate")

# The order of roles matters too: a name of several meanings ("prompt", "problem", "text") is last in each list it is
# in, and goes to the first role that has no better column.
PROBLEM_COLUMNS: Names = {
    "question": (*_QUESTION, "text"),
    # uid and pid are ids of problems here; in a log they may be those of a sample or of a process
    "problem": (*_ID, "uid", "pid", "extra_info.uid", "extra_info.id", "id", "idx", "index", "problem"),
    "gold": _GOLD,
    "choices": _CHOICES,
    "images": _IMAGES,
    "verifier": ("verifier",),
    "details": ("details",),
    "benchmark": (*_BENCHMARK, "source"),
    "guess": _GUESS,
    "prompt": ("prompt",),
}

SAMPLE_COLUMNS: Names = {
    "problem": (*_ID, "id", "idx", "key"),
    "question": _QUESTION,
    "text": (
        "completion",
        "completions",
        "response",
        "responses",
        "generation",
        "generations",
        "generated_text",
        "generated_texts",
        "model_output",
        "model_outputs",
        "model_response",
        "model_responses",
        "output",
        "outputs",
        "output_list",
        "output_text",
        "raw_output",
        "raw_outputs",
        "raw_response",
        "raw_responses",
        "full_response",
        "assistant_response",
        "llm_output",
        "llm_response",
        "text",
        "texts",
        "samples",
        "rollouts",
        "attempts",
        "trials",
        "code",
    ),
    "verdict": (
        "verdict",
        "verdicts",
        "correct",
        "is_correct",
        "file_correct",
        "passed",
        "pass",
        "correctness",
        "answers_correctness",
        "success",
        "solved",
        "resolved",
        "is_resolved",
        "is_solved",
        "is_passed",
        "is_success",
        "is_right",
        "corrects",
        "graded_list",
        "exact_match",
        "exact_matches",
        "accuracy",
        "acc",
        "score",
        "scores",
        "reward",
        "rewards",
        *AMBIGUOUS_VERDICT_NAMES,
    ),
    "gold": tuple(name for name in _GOLD if name not in _MODEL_WRITTEN),
    "answer": (
        "predicted_answer",
        "extracted_answer",
        "extracted_answers",
        "model_answer",
        "parsed_answer",
        "pred",
        "preds",
        "prediction",
        "predictions",
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
        "rollout_idx",
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
    # What tells two problems of the same text apart; only their hashes are kept (data/content.py).
    "choices": (*_CHOICES, "endings"),
    "images": _IMAGES,
    "tests": ("test", "tests", "test_list", "test_cases", "unit_tests", "public_tests"),
    "context": ("context", "passage", "story", "premise", "narrative", "article", "document"),
}

# Names that a row of a problem gives to its list of samples, where they are objects. Inside them, a sample's fields go
# by the names of SAMPLE_COLUMNS and a few that would be too vague for a column of a table.
SAMPLE_LISTS = (
    *(name for name in SAMPLE_COLUMNS["text"] if name.endswith("s")),
    "predictions",
    "candidates",
    "results",
    "runs",
    "trajectories",
    "answers",
    "solutions",
    "evaluations",
    "evals",
)
INSIDE_SAMPLES: Names = {
    "text": (
        *SAMPLE_COLUMNS["text"],
        "content",
        "message.content",
        "message",
        "messages",
        "solution",
        "trajectory",
        "full_text",
        "raw",
    ),
    "verdict": SAMPLE_COLUMNS["verdict"],
    "answer": (*SAMPLE_COLUMNS["answer"], "answer", "final_answer"),
    "tokens": (*SAMPLE_COLUMNS["tokens"], "length"),
    "finish": SAMPLE_COLUMNS["finish"],
    "question": _QUESTION,
    "gold": SAMPLE_COLUMNS["gold"],
}

# An id of these names may be that of a problem or of a sample. The last are taken only where nothing else names the
# problem: in a log `index` is more often the number of a sample, `uid` and `pid` that of a sample or a process.
AMBIGUOUS_ID_NAMES = ("id", "idx", "index", "uid", "pid", "uuid")
FALLBACK_ID_NAMES = ("uid", "uuid", "pid", "index")

COUNT_COLUMNS: Names = {
    "problem": (*SAMPLE_COLUMNS["problem"], "problem"),
    **{role: SAMPLE_COLUMNS[role] for role in ("question", "gold", "benchmark", "guess")},
    "n": (
        "n",
        "total",
        "num_samples",
        "n_samples",
        "trials",
        "samples",
        "attempts",
        "n_rollouts",
        "num_rollouts",
        "rollouts",
        "n_total",
        "num_total",
        "total_samples",
        "n_attempts",
        "num_attempts",
        "n_trials",
        "num_trials",
        "n_generations",
        "num_generations",
        "n_completions",
        "num_completions",
        "n_responses",
        "num_responses",
        "n_runs",
        "num_runs",
        "k",
    ),
    "c": (
        "c",
        "correct",
        "num_correct",
        "n_correct",
        "passes",
        "successes",
        "passed",
        "correct_count",
        "total_correct",
        "n_pass",
        "n_passed",
        "num_pass",
        "num_passed",
        "n_success",
        "num_success",
        "num_successes",
        "n_solved",
        "num_solved",
        "solved",
    ),
    **{role: SAMPLE_COLUMNS[role] for role in ("choices", "images", "tests", "context")},
}


def guess_columns(
    names: Names,
    columns: Sequence[str],
    mapped: Mapping[str, str],
    excluded: Collection[str] = (),
    fits: Callable[[str, str], bool] = lambda role, column: True,
) -> dict[str, str]:
    """The column of each role. Case, spaces and hyphens do not matter, and no column has two roles.

    Args:
        names: The usual names of each role, in order of preference.
        columns: The columns of the file.
        mapped: --map: role -> column. An empty column leaves the role without one.
        excluded: Columns that have another use already (--split-by).
        fits: Whether a column can have a role, by its values; asked of guesses only.

    Returns:
        Role -> column, the mapped ones first; roles without a column are not in it.

    >>> guess_columns({"gold": ("gold", "answer"), "question": ("question",)}, ["Question", "answer"], {})
    {'gold': 'answer', 'question': 'Question'}
    """
    chosen = {role: column for role, column in mapped.items() if column}
    unavailable = {*chosen.values(), *excluded}
    by_normal_name = {normal_name(name): name for name in reversed(columns)}
    for role, usual_names in names.items():
        if role in mapped:
            continue
        candidates = (
            by_normal_name[name]
            for name in usual_names
            if name in by_normal_name and by_normal_name[name] not in unavailable
        )
        column = next((name for name in candidates if fits(role, name)), None)
        if column is not None:
            chosen[role] = column
            unavailable.add(column)
    return chosen


def normal_name(name: str) -> str:
    """A column's name as the tables above spell it."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def require_column(name: str, columns: Sequence[str], path: Path, option: str) -> str:
    """A column that the user named with an option; refused with the columns there are when the file has none such."""
    if name in columns:
        return name
    close_matches = get_close_matches(name, columns, n=1, cutoff=0.5)
    hint = f" Did you mean {close_matches[0]!r}?" if close_matches else ""
    ellipsis = ", ..." if len(columns) > 40 else ""
    raise OffleashError(
        f"{path} has no column {name!r} ({option}).{hint} Columns: {', '.join(columns[:40])}{ellipsis}."
    )


def columns_note(path: Path, chosen: Mapping[str, str], unused: Sequence[str], hint: str = "") -> Note:
    """What was read from where, so that a wrong guess shows and can be corrected with --map."""
    pairs = ", ".join(f"{role} <- {column}" for role, column in chosen.items())
    unused_text = f"; not used: {', '.join(unused[:12])}" if unused else ""
    return Note(f"{path.name}: read {pairs}{unused_text}. Use --map NAME=COLUMN to change this.{hint}")


def value_at(values: Mapping[str, object], column: str) -> object:
    """The value of a column; a dotted path reaches inside objects, lists of objects, and by number inside lists.

    >>> row = {"meta": {"prompt": "1+1?"}, "rollouts": [{"correct": True}, {"correct": False}, {}]}
    >>> value_at(row, "meta.prompt"), value_at(row, "rollouts.correct"), value_at(row, "rollouts.0.correct")
    ('1+1?', [True, False, None], True)
    """
    if column in values:
        return values[column]
    outer, _, inner = column.partition(".")
    return _value_inside(values.get(outer), inner) if inner else None


def _value_inside(value: object, path: str) -> object:
    if isinstance(value, Mapping):
        return value_at(value, path)
    if not isinstance(value, list):
        return None
    name, _, remaining_path = path.partition(".")
    if not name.isdecimal():
        return [_value_inside(entry, path) for entry in value]
    entry = value[int(name)] if int(name) < len(value) else None
    return _value_inside(entry, remaining_path) if remaining_path else entry


def passes_through_list(values: Mapping[str, object], column: str) -> bool:
    """Whether a dotted path passes through a list of objects, so that its value is one per object."""
    if column in values:
        return False
    outer, _, inner = column.partition(".")
    value = values.get(outer)
    while inner:
        if isinstance(value, Mapping):
            if inner in value:
                return False
            outer, _, inner = inner.partition(".")
            value = value.get(outer)
        elif isinstance(value, list):
            outer, _, inner = inner.partition(".")
            if not outer.isdecimal():
                return True
            value = value[int(outer)] if int(outer) < len(value) else None
        else:
            return False
    return False


def fields_inside(value: object) -> tuple[str, ...]:
    """The fields of an object, or of any object of a list; those of an object inside are dotted."""
    entries = value if isinstance(value, list) else [value]
    return all_columns(entry for entry in entries if isinstance(entry, Mapping))


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
