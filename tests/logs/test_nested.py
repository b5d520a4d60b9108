"""Objects inside rows, and rows inside objects: home-made shapes, read as a script of a few lines counts them."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

import offleash as ol
from offleash.data.content import content_hashes
from offleash.errors import OffleashError
from offleash.logs.format import Ids, Options
from tests.logs.log_reading import lines, notes_text, read, verdicts
from tests.logs.plain_counts import Counts, assert_same

Problem = tuple[str, str, list[tuple[str, bool]]]  # question, gold, samples with their verdicts


def made(seed: int) -> list[Problem]:
    """Thirty sums with six samples each; which are right depends on the seed."""
    rng = random.Random(seed)
    problems: list[Problem] = []
    for number in range(30):
        gold, rate = number + 7, rng.choice([0.0, 0.2, 0.5, 0.9])
        right = [rng.random() < rate for _ in range(6)]
        samples = [
            (f"I think \\boxed{{{gold if good else gold + 1 + place}}}", good) for place, good in enumerate(right)
        ]
        problems.append((f"What is {number} + 7?", str(gold), samples))
    return problems


def rollouts(problems: list[Problem]) -> list[dict[str, object]]:
    return [
        {
            "qid": f"q{number}",
            "question": question,
            "gts": gold,
            "rollouts": [{"text": t, "correct": c} for t, c in samples],
        }
        for number, (question, gold, samples) in enumerate(problems)
    ]


def as_lines(path: Path, problems: list[Problem]) -> dict[str, str]:
    lines(path, rollouts(problems))
    return {}


def as_parquet(path: Path, problems: list[Problem]) -> dict[str, str]:
    pl.DataFrame(rollouts(problems)).write_parquet(path)
    return {}


def as_wrapped_list(path: Path, problems: list[Problem]) -> dict[str, str]:
    results = [
        {"id": number, "prompt": question, "answer": gold, "response": text, "is_correct": good}
        for number, (question, gold, samples) in enumerate(problems)
        for text, good in samples
    ]
    path.write_text(json.dumps({"model": "m", "accuracy": 0.5, "num_samples": 6, "results": results}, indent=1))
    return {}


def as_one_line_object(path: Path, problems: list[Problem]) -> dict[str, str]:
    path.write_text(json.dumps({"config": {"k": 6, "model": "m"}, "data": {"items": rollouts(problems)}}))
    return {}


def as_object_by_id(path: Path, problems: list[Problem]) -> dict[str, str]:
    results = {
        f"q{number}": {"question": question, "generations": [t for t, _ in samples], "correct": [c for _, c in samples]}
        for number, (question, _, samples) in enumerate(problems)
    }
    path.write_text(json.dumps({"results": results}, indent=1))
    return {}


def as_lists_by_id(path: Path, problems: list[Problem]) -> dict[str, str]:
    by_id = {
        f"q{number}": [{"output": t, "passed": c} for t, c in samples]
        for number, (_, _, samples) in enumerate(problems)
    }
    path.write_text(json.dumps(by_id))
    return {}


def as_marks_by_id(path: Path, problems: list[Problem]) -> dict[str, str]:
    path.write_text(json.dumps({f"q{number}": [c for _, c in p[2]] for number, p in enumerate(problems)}, indent=2))
    return {}


def as_dotted(path: Path, problems: list[Problem]) -> dict[str, str]:
    rows = [
        {
            "meta": {"key": f"q{number}", "prompt": question},
            "tries": [{"out": {"raw": t}, "ok": int(c)} for t, c in samples],
        }
        for number, (question, _, samples) in enumerate(problems)
    ]
    lines(path, rows)
    return {"problem": "meta.key", "question": "meta.prompt", "text": "tries.out.raw", "verdict": "tries.ok"}


def as_mapped_objects(path: Path, problems: list[Problem]) -> dict[str, str]:
    as_lines(path, problems)
    return {"text": "rollouts"}


def as_counts(path: Path, problems: list[Problem]) -> dict[str, str]:
    lines(
        path,
        [{"qid": i, "n_rollouts": len(p[2]), "n_correct": sum(c for _, c in p[2])} for i, p in enumerate(problems)],
    )
    return {}


def as_wrapped_counts(path: Path, problems: list[Problem]) -> dict[str, str]:
    by_id = {f"p{i}": {"k": len(p[2]), "num_correct": sum(c for _, c in p[2])} for i, p in enumerate(problems)}
    path.write_text(json.dumps({"model": "m", "per_problem": by_id}, indent=1))
    return {}


SHAPES: dict[str, Callable[[Path, list[Problem]], dict[str, str]]] = {
    "rollouts.jsonl": as_lines,
    "rollouts.parquet": as_parquet,
    "wrapped.json": as_wrapped_list,
    "one_line.json": as_one_line_object,
    "by_id.json": as_object_by_id,
    "lists_by_id.json": as_lists_by_id,
    "marks_by_id.json": as_marks_by_id,
    "dotted.jsonl": as_dotted,
    "mapped.jsonl": as_mapped_objects,
    "counts.jsonl": as_counts,
    "wrapped_counts.json": as_wrapped_counts,
}


def counted(problems: list[Problem]) -> Counts:
    return {question: (len(samples), sum(good for _, good in samples)) for question, _, samples in problems}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_gives_the_counts_of_a_plain_script(name: str, tmp_path: Path) -> None:
    base, rl = tmp_path / f"base_{name}", tmp_path / f"rl_{name}"
    columns = SHAPES[name](base, made(1))
    SHAPES[name](rl, made(2))
    assert_same(counted(made(1)), counted(made(2)), base, rl, columns=columns)


def test_text_mapped_to_objects_is_their_text_and_is_judged_as_such(tmp_path: Path) -> None:
    paths = [tmp_path / "base.jsonl", tmp_path / "rl.jsonl"]
    for path, seed in zip(paths, (1, 2), strict=True):
        lines(path, rollouts(made(seed)))
    own = ol.compare(*paths).to_dict()["support"]
    reading = ol.Reading(columns={"text": "rollouts", "gold": "gts"})
    judged = ol.compare(*paths, reading=reading, verifier="math").to_dict()["support"]
    assert {name: judged[name] for name in "PESO"} == {name: own[name] for name in "PESO"}


ROWS: list[dict[str, object]] = [
    {
        "id": "a",
        "gold": "5",
        "samples": [{"response": "5", "score": 1.0, "n_tokens": 3}, {"response": "6", "score": 0.0}],
    },
    {"id": "b", "gold": "7", "samples": []},
    {"id": "c", "gold": "7", "samples": None},
    {"id": "d", "gold": "8", "samples": [{"response": None, "score": None, "n_tokens": 9}, None]},
]


def both(folder: Path, rows: list[dict[str, object]]) -> list[Path]:
    pl.DataFrame(rows).write_parquet(folder / "rows.parquet")
    return [lines(folder / "rows.jsonl", rows), folder / "rows.parquet"]


def test_rows_and_columns_agree_on_lists_of_objects(tmp_path: Path) -> None:
    (log, frame), (_, columnwise) = [read(path) for path in both(tmp_path, ROWS)]
    assert frame.equals(columnwise)
    assert frame.select("problem", "text", "verdict", "tokens").rows() == [
        ("a", "5", "correct", 3),
        ("a", "6", "wrong", None),
        ("d", None, None, 9),
        ("d", None, None, None),
    ]
    assert "text <- samples.response" in notes_text(log)
    assert [note.rows for note in log.notes if note.left_out] == [2]


def test_rows_and_columns_agree_on_paths_options_and_contents(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "meta": {"qid": "a", "prompt": [{"role": "user", "content": "Which?"}]},
            "options": ["x", "y"],
            "story": "Once",
            "outs": [
                {"model": "m1", "msgs": [{"role": "assistant", "content": "x"}], "ok": True, "gold": "x"},
                {"model": "m2", "msgs": [{"role": "assistant", "content": "y"}], "ok": False, "gold": "x"},
            ],
        }
    ]
    columns = {"problem": "meta.qid", "question": "meta.prompt", "text": "outs.msgs", "verdict": "outs.ok"}
    options = Options(columns={**columns, "gold": "outs.gold"}, split_by="outs.model")
    (_, frame), (_, columnwise) = [read(path, options) for path in both(tmp_path, rows)]
    assert frame.equals(columnwise)
    assert frame.select("problem", "question", "gold", "text", "verdict", "split").rows() == [
        ("a", "Which?", "x", "x", "correct", "m1"),
        ("a", "Which?", "x", "y", "wrong", "m2"),
    ]
    assert frame["contents"].to_list() == [content_hashes(choices=["x", "y"], context="Once")] * 2


def test_an_entry_of_a_list_is_named_by_its_number(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"id": 1, "choices": [{"message": {"content": "5"}}], "ok": True}]
    options = Options(columns={"text": "choices.0.message.content", "verdict": "ok"})
    for path in both(tmp_path, rows):
        assert read(path, options)[1].select("text", "verdict").rows() == [("5", "correct")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": "rollouts"}, "'rollouts' .*holds objects with the fields a, b.*--map text=rollouts.FIELD"),
        ({"text": "rollouts.txt", "verdict": "rollouts.b"}, "no column 'rollouts.txt'.*'rollouts' has the fields a, b"),
        ({"text": "rolouts.a"}, "no column 'rolouts.a'.*Did you mean 'rollouts'"),
        ({"text": "id.a"}, "no column 'id.a'.*'id' holds text and no fields"),
    ],
)
def test_a_wrong_path_shows_what_is_there(columns: Mapping[str, str], message: str, tmp_path: Path) -> None:
    for path in both(tmp_path, [{"id": "x", "rollouts": [{"a": "1", "b": True}]}]):
        with pytest.raises(OffleashError, match=message):
            read(path, Options(columns=columns))


REFUSED: dict[str, tuple[list[dict[str, object]], str]] = {
    "objects and texts": (
        [{"id": "a", "rollouts": [{"text": "5", "correct": True}, "6"]}],
        "row 1: 'rollouts' holds objects and '6'",
    ),
    "an object as a text": (
        [{"id": "a", "response": "5", "correct": True}, {"id": "b", "response": {"x": 1}, "correct": True}],
        "row 2: the text of a sample is an object with the fields x.*--map text=",
    ),
    "a list as a text": (
        [{"id": "a", "responses": ["5", ["6", "7"]], "correct": [True, True]}],
        "row 1: the text of a sample is a list",
    ),
    "half of another format": (
        [{"id": n, "response": "5", "correct": True} for n in range(5)] + [{"id": 9, "resps": [["5"]], "acc": 1}],
        "row 6 has id, resps, acc, but not response, correct.*file of their own",
    ),
    "several golds": (
        [{"id": "a", "rollouts": [{"text": "5", "correct": True, "gold": g} for g in "xy"]}],
        "row 1: its samples have several values of 'rollouts.gold': 'x' and 'y'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_together_are_refused(case: str, tmp_path: Path) -> None:
    rows, message = REFUSED[case]
    with pytest.raises(OffleashError, match=message):
        read(lines(tmp_path / "rows.jsonl", rows))


def test_a_row_whose_tool_failed_is_unverified_not_refused(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"id": "a", "response": "5", "correct": True}, {"id": "b", "error": "timeout"}]
    assert verdicts(read(lines(tmp_path / "rows.jsonl", rows))[1]) == {"correct": 1, None: 1}


def test_one_problem_with_its_samples_is_a_row_and_not_a_wrapper(tmp_path: Path) -> None:
    path = tmp_path / "problem_1.json"
    row = {"question": "What is 2 + 3?", "answer": "5", "samples": [{"id": 0, "text": "5", "correct": True}]}
    path.write_text(json.dumps(row, indent=1))
    _, frame = read(path)
    assert frame.select("question", "gold", "text", "verdict").rows() == [("What is 2 + 3?", "5", "5", "correct")]


TWO = {
    "before": [{"id": "a", "response": "5", "correct": True}],
    "later": {"rows": [{"id": "a", "response": "6", "correct": False}]},
    "note": "x",
}


def test_several_lists_need_rows_and_a_wrong_one_shows_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(TWO, indent=1))
    with pytest.raises(OffleashError, match=r"several lists of rows: before \(1 rows\), later.rows \(1 rows\).*--rows"):
        read(path)
    assert read(path, Options(rows="later.rows"))[1]["verdict"].to_list() == ["wrong"]
    for wrong, message in [
        ("later.row", "--rows later.row is not in it.*Rows are at before .*Did you mean --rows later.rows"),
        ("note", "--rows note holds str 'x', not a list of rows"),
    ]:
        with pytest.raises(OffleashError, match=message):
            read(path, Options(rows=wrong))
    with pytest.raises(OffleashError, match="is a list of rows, so --rows"):
        read(lines(tmp_path / "rows.jsonl", ROWS), Options(rows="samples"))


def test_rows_of_mixed_types_are_refused_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"results": [{"id": "a", "correct": True}, [1], "x"]}))
    with pytest.raises(OffleashError, match="row 2 of results is a JSON list, not an object"):
        read(path, Options(rows="results"))


def test_lists_by_run_are_split_by_their_key(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    row = {"problem_id": "a", "response": "5"}
    runs = {"base": [{**row, "correct": False}], "rl": [{**row, "correct": True}]}
    path.write_text(json.dumps({"runs": runs}))
    with pytest.raises(OffleashError, match=r"several lists of rows: runs.base .*--split-by key"):
        read(path)
    _, frame = read(path, Options(rows="runs", split_by="key"))
    assert frame.select("split", "verdict").rows() == [("base", "wrong"), ("rl", "correct")]


def test_what_the_object_says_of_its_rows_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps({"model": "m", "results": [{"id": "a", "correct": True}, {"id": "b", "correct": False}]})
    )
    assert read(path, Options(split_by="model"))[1]["split"].to_list() == ["m", "m"]


@pytest.mark.parametrize(
    "document",
    [
        {"aime24": {"accuracy": 0.4, "num_samples": 30}, "math500": {"accuracy": 0.8, "num_samples": 500}},
        {"aime24": {"correct": 12, "total": 30}, "math500": {"correct": 400, "total": 500}},
        {"config": {"temperature": 1.0}, "paths": {"out": "x"}},
    ],
)
def test_a_summary_per_benchmark_is_not_a_log(document: Mapping[str, object], tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(document, indent=1))
    with pytest.raises(OffleashError, match="no known format"):
        read(path)


@pytest.mark.parametrize(
    ("row", "roles"),
    [
        ({"qid": 1, "output_text": "x", "pass": True}, "text <- output_text, verdict <- pass"),
        ({"instance_id": "a", "resolved": False}, "problem <- instance_id, verdict <- resolved"),
        ({"q_idx": 1, "ground_truths": ["5"], "responses": ["5"], "exact_matches": [1]}, "gold <- ground_truths"),
        ({"question_id": 1, "completions": ["x"], "answers_correctness": [True]}, "verdict <- answers_correctness"),
        (
            {"uid": "a", "answer": "5", "rollouts": [{"reward": 1.0, "prediction": "5"}]},
            "answer <- rollouts.prediction",
        ),
        ({"id": 1, "model_response": "x", "label": True}, "verdict <- label"),
        ({"id": 1, "model_response": "x", "label": "B", "score": 1}, "gold <- label"),
        ({"id": 1, "outputs": ["x"], "result": ["passed"]}, "verdict <- result"),
        ({"problem_idx": 1, "attempts": ["x", "y"], "is_correct": [1, 0]}, "text <- attempts"),
    ],
)
def test_names_of_real_files_are_guessed(row: dict[str, object], roles: str, tmp_path: Path) -> None:
    log, _ = read(lines(tmp_path / "rows.jsonl", [row]))
    assert log.format == "generic"
    assert roles in notes_text(log)


@pytest.mark.parametrize(
    ("row", "n", "c"),
    [
        ({"qid": 1, "n_rollouts": 8, "n_correct": 3}, 8, 3),
        ({"id": 1, "rollouts": 8, "solved": 3}, 8, 3),
        ({"problem_id": 1, "k": 8, "num_correct": 0}, 8, 0),
        ({"task_id": 1, "num_generations": 8, "num_passed": 8, "attempts": 2}, 2, 8),
    ],
)
def test_names_of_real_tables_of_counts_are_guessed(row: dict[str, object], n: int, c: int, tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [row])
    if c > n:
        with pytest.raises(OffleashError, match="only 2 samples"):
            read(path)
        return
    assert read(path)[1].select("n", "c").rows() == [(n, c)]


def test_k_that_numbers_samples_is_no_count(tmp_path: Path) -> None:
    log, frame = read(
        lines(tmp_path / "rows.jsonl", [{"qid": 1, "k": 1, "correct": 1}, {"qid": 1, "k": 2, "correct": 0}])
    )
    assert (log.format, verdicts(frame)) == ("generic", {"correct": 1, "wrong": 1})


@pytest.mark.parametrize(
    ("name", "options", "ids"),
    [
        ("id", Options(), Ids.UNKNOWN),
        ("uid", Options(), Ids.UNKNOWN),
        ("index", Options(), Ids.UNKNOWN),
        ("id", Options(columns={"problem": "id"}), Ids.PROBLEM),
        ("doc_id", Options(), Ids.PROBLEM),
    ],
)
def test_an_id_of_a_vague_name_may_be_that_of_a_sample(name: str, options: Options, ids: Ids, tmp_path: Path) -> None:
    assert read(lines(tmp_path / "rows.jsonl", [{name: 1, "response": "x", "correct": True}]), options)[0].ids is ids


def test_choices_tests_and_images_are_kept_as_hashes_and_look_alikes_are_not(tmp_path: Path) -> None:
    row = {"id": 1, "response": "x", "correct": True}
    contents = {"answer_choices": ["a", "b"], "test_list": ["assert f(1)"], "image": "cat.png", "passage": "A cat."}
    expected = content_hashes(choices=["a", "b"], tests=["assert f(1)"], images="cat.png", context="A cat.")
    results = {"options": {"temperature": 0.6}, "tests": {"passed": 3}, "context": 4096}
    assert read(lines(tmp_path / "a.jsonl", [{**row, **contents}]))[1]["contents"].to_list() == [expected]
    assert read(lines(tmp_path / "b.jsonl", [{**row, **results}]))[1]["contents"].to_list() == [None]


def test_a_wrong_path_into_an_object_of_one_line_shows_the_columns_of_its_rows(tmp_path: Path) -> None:
    rows = [{"qid": "q", "question": "Why is it?", "rollouts": [{"text": "x", "correct": True}]}]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"model": "m", "results": rows}))
    with pytest.raises(OffleashError, match=r"has the fields text, correct. Did you mean 'rollouts.text'"):
        read(path, Options(columns={"text": "rollouts.txt"}))
