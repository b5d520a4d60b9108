"""Which column of an unknown log is which, for samples and for counts: guessed by name, overridden by --map."""

from collections.abc import Mapping

from offleash.data.tables import COUNTS, ENTRIES, Note
from offleash.files.detect import Head
from offleash.files.rows import text_of, whole_of
from offleash.logs.format import Options
from offleash.logs.frames import require

# In order of preference. A name of several meanings stands last in each list it is in, and is used once.
NAMES: dict[str, tuple[str, ...]] = {
    "problem": (
        "problem_id",
        "task_id",
        "question_id",
        "qid",
        "doc_id",
        "prompt_id",
        "example_id",
        "unique_id",
        "id",
        "idx",
    ),
    "question": (
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
    ),
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
    "gold": (
        "gold",
        "gold_answer",
        "ground_truth",
        "target",
        "label",
        "expected_answer",
        "reference_answer",
        "reference",
        "gt",
    ),
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
    "benchmark": ("benchmark", "dataset", "dataset_name", "data_source", "task", "task_name", "source"),
    "guess": ("guess", "guess_rate", "chance"),
    "tokens": ("tokens", "num_tokens", "n_tokens", "completion_tokens", "output_tokens", "num_generated_tokens"),
    "finish": ("finish", "finish_reason", "stop_reason"),
}

COUNT_NAMES: dict[str, tuple[str, ...]] = {
    "problem": (*NAMES["problem"], "problem"),
    "question": NAMES["question"],
    "gold": NAMES["gold"],
    "benchmark": NAMES["benchmark"],
    "guess": NAMES["guess"],
    "n": ("n", "total", "num_samples", "n_samples", "trials", "samples", "attempts"),
    "c": ("c", "correct", "num_correct", "n_correct", "passes", "successes", "passed"),
}

NUMBERS = ("sample", "tokens")
RUNS = ("model", "model_name", "checkpoint", "step", "policy")  # columns that often hold several runs


def sample_columns(head: Head, options: Options) -> dict[str, str]:
    """Our name -> theirs, for a table of samples."""
    chosen = _chosen(NAMES, head, options, tuple(ENTRIES))
    first = {ours: head.first.get(theirs) for ours, theirs in chosen.items()}
    if "question" in chosen and not {"problem"} & {*chosen, *options.columns} and _is_id(first["question"]):
        chosen["problem"] = chosen.pop("question")
    free = "answer" in head.columns and "answer" not in chosen.values()
    if free and "gold" not in chosen and "gold" not in options.columns:
        chosen["gold"] = "answer"  # data sets call the reference so
    elif free and "answer" not in chosen and "answer" not in options.columns:
        chosen["answer"] = "answer"
    listed = any(isinstance(first.get(name), list) for name in ("text", "verdict"))
    for name in NUMBERS:
        if name in chosen and name not in options.columns and not _whole(first[name], listed):
            del chosen[name]
    return chosen


def count_columns(head: Head, options: Options) -> dict[str, str]:
    """Our name -> theirs, for a table of counts."""
    return _chosen(COUNT_NAMES, head, options, tuple(COUNTS))


def mapping_note(head: Head, chosen: Mapping[str, str]) -> Note:
    """Says what was read from where; a wrong guess shows here and is mended with --map."""
    unused = [name for name in head.columns if name not in chosen.values()]
    pairs = ", ".join(f"{ours} <- {theirs}" for ours, theirs in chosen.items())
    rest = f"; not used: {', '.join(unused[:12])}" if unused else ""
    several = next((f" --split-by {name} keeps several apart." for name in unused if name.lower() in RUNS), "")
    return Note(f"{head.path.name}: read {pairs}{rest}. --map NAME=COLUMN changes it.{several}")


def _chosen(
    names: Mapping[str, tuple[str, ...]], head: Head, options: Options, known: tuple[str, ...]
) -> dict[str, str]:
    asked = {ours: theirs for ours, theirs in options.columns.items() if ours in known}
    chosen = {ours: require(theirs, head, f"--map {ours}={theirs}") for ours, theirs in asked.items() if theirs}
    taken = {*chosen.values(), options.split_by}
    plain = {name.strip().lower().replace("-", "_").replace(" ", "_"): name for name in reversed(head.columns)}
    for ours, candidates in names.items():
        if ours in asked:  # --map sample= leaves the column unread
            continue
        theirs = next((plain[name] for name in candidates if name in plain and plain[name] not in taken), None)
        if theirs is not None:
            chosen[ours] = theirs
            taken.add(theirs)
    return {ours: chosen[ours] for ours in known if ours in chosen}


def _is_id(value: object) -> bool:
    """Whether the only column that names a problem holds ids rather than texts."""
    if isinstance(value, int | float):
        return True
    return isinstance(value, str) and bool(value) and not any(letter.isspace() for letter in value.strip())


def _whole(value: object, listed: bool) -> bool:
    """Whether a guessed number is one; a list beside a single text is token ids, not a number of tokens."""
    if isinstance(value, list):
        return listed and all(whole_of(one) is not None for one in value)
    return whole_of(value) is not None or text_of(value) in (None, "")
