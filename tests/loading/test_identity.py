"""What the same problem is: no two contents fused, none split for its prompt, and no row lost without a note."""

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offleash as ol
from offleash.comparing.align import match
from offleash.errors import OffleashError
from offleash.loading.import_logs import import_logs
from offleash.loading.load import LoadOptions, load
from offleash.logs.format import Options
from tests.logs.log_reading import lines
from tests.logs.plain_counts import assert_same


def lm_eval_rows(count: int, correct: Iterable[int], prompt: str = "{}", **doc: object) -> list[dict[str, object]]:
    """An lm-eval log of documents that all ask one sentence about different stories."""
    hits = set(correct)
    out = []
    for position in range(count):
        document = {"narrative": f"Story {position}.", "question": "Who did it?", "answer_index": position % 3, **doc}
        text = json.dumps(document, indent=2, ensure_ascii=False)
        out.append(
            {
                "doc_id": position,
                "doc": document,
                "target": str(position % 3),
                "arguments": {"gen_args_0": {"arg_0": prompt.format(document["narrative"]), "arg_1": {}}},
                "resps": [["guess"]],
                "filtered_resps": ["guess"],
                "filter": "none",
                "metrics": ["exact_match"],
                "exact_match": float(position in hits),
                "doc_hash": hashlib.sha256(text.encode()).hexdigest(),
            }
        )
    return out


def by_doc(path: Path) -> dict[Hashable, tuple[int, int]]:
    """Samples and correct ones per document, by its position and hash: nothing of ours."""
    counts: dict[Hashable, tuple[int, int]] = {}
    for row in map(json.loads, path.read_text().splitlines()):
        n, c = counts.get(row["doc_hash"], (0, 0))
        counts[row["doc_hash"]] = (n + 1, c + int(row["exact_match"]))
    return counts


def test_documents_that_share_their_question_are_different_problems(tmp_path: Path) -> None:
    name = "samples_musr_2026-01-31T12-00-00.jsonl"
    base = lines(tmp_path / "base" / name, lm_eval_rows(250, range(0, 250, 2)), parents=True)
    rl = lines(tmp_path / "rl" / name, lm_eval_rows(250, range(0, 250, 3)), parents=True)
    assert_same(by_doc(base), by_doc(rl), base, rl)
    notes = [note["text"] for note in ol.compare(base, rl).to_dict()["notes"] if note["warning"]]
    assert any("250 problems share their text with another ('Who did it?': 250 of them)" in note for note in notes)


def test_the_same_documents_under_another_template_match(tmp_path: Path) -> None:
    base = lines(tmp_path / "base.jsonl", lm_eval_rows(198, range(9), "Story: {}", question=None))
    rl = lines(tmp_path / "rl.jsonl", lm_eval_rows(198, range(12), "<|im_start|>user {}", question=None))
    assert_same(by_doc(base), by_doc(rl), base, rl)


def test_a_document_that_a_task_holds_twice_is_two_problems(tmp_path: Path) -> None:
    rows = lm_eval_rows(2, [0])
    twice = [*rows, {**rows[0], "doc_id": 2, "exact_match": 0.0}]
    base, rl = (
        lines(tmp_path / "base.jsonl", twice),
        lines(tmp_path / "rl.jsonl", [*twice[:2], {**twice[2], "exact_match": 1.0}]),
    )
    result = ol.compare(base, rl).to_dict()
    assert [result["support"][cell] for cell in "PESO"] == [1, 1, 0, 1]


def test_a_run_folder_imported_before_matches_its_logs(tmp_path: Path) -> None:
    """Folders of earlier versions have neither identity nor contents, and ids that were the log's."""
    rows = [{**row, "doc": {"question": f"Question {row['doc_id']}?"}} for row in lm_eval_rows(5, [1, 2])]
    log = lines(tmp_path / "samples_t_2026-01-31T12-00-00.jsonl", rows)
    import_logs(str(log), tmp_path / "run")
    file = tmp_path / "run" / "problems.parquet"
    pl.read_parquet(file).drop("identity", "contents").write_parquet(file)
    (old,), (new,) = load(tmp_path / "run"), load(log)
    assert match([old, new]).problems.height == 5


def verl_rows(golds: list[str], correct: list[bool], uid: str) -> list[dict[str, object]]:
    return [
        {"input": "How many?", "output": f"{uid} {i}", "gts": gold, "score": float(hit), "step": 1, "uid": f"{uid}{i}"}
        for i, (gold, hit) in enumerate(zip(golds, correct, strict=True))
    ]


def test_one_prompt_with_different_golds_is_several_problems(tmp_path: Path) -> None:
    golds = ["1", "1", "2", "2", "3", "3"]
    base = lines(tmp_path / "base.jsonl", verl_rows(golds, [True, False, False, False, True, True], "a"))
    rl = lines(tmp_path / "rl.jsonl", verl_rows(golds, [False, False, True, False, True, True], "b"))

    def counts(path: Path) -> dict[Hashable, tuple[int, int]]:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        drawn, hits = Counter(row["gts"] for row in rows), Counter(row["gts"] for row in rows if row["score"] == 1)
        return {gold: (drawn[gold], hits[gold]) for gold in drawn}

    assert_same(counts(base), counts(rl), base, rl)
    assert ol.compare(base, rl).to_dict()["notes"][0]["warning"]


@pytest.mark.parametrize("field", ["choices", "image", "context"])
def test_problems_that_differ_in_one_field_alone_are_kept_apart(field: str, tmp_path: Path) -> None:
    def rows(hits: Mapping[str, bool]) -> list[dict[str, object]]:
        return [
            {
                "question": "Which?",
                "gold": "A",
                field: [value] if field == "choices" else value,
                "response": "A",
                "correct": hit,
            }
            for value, hit in hits.items()
        ]

    base = lines(tmp_path / "base.jsonl", rows({"x": True, "y": True, "z": False}))
    rl = lines(tmp_path / "rl.jsonl", rows({"z": True, "x": True, "y": False}))
    result = ol.compare(base, rl).to_dict()
    assert [result["support"][cell] for cell in "PESO"] == [1, 1, 1, 0]


def test_a_field_that_one_run_lacks_is_no_difference(tmp_path: Path) -> None:
    base = lines(tmp_path / "base.jsonl", [{"question": "Which?", "gold": "A", "response": "A", "correct": True}])
    rl = lines(tmp_path / "rl.jsonl", [{"question": "Which?", "response": "B", "correct": False}])
    assert ol.compare(base, rl).to_dict()["support"]["S"] == 1


def test_golds_as_several_tools_write_them_are_equal(tmp_path: Path) -> None:
    base = lines(
        tmp_path / "base.jsonl", [{"question": "6x12?", "gold": "So.\n#### 1,072", "response": "A", "correct": True}]
    )
    rl = lines(
        tmp_path / "rl.jsonl", [{"question": "6x12?", "gold": "\\boxed{1072}", "response": "B", "correct": True}]
    )
    assert ol.compare(base, rl).to_dict()["support"]["P"] == 1


def test_positions_match_only_where_the_contents_agree(tmp_path: Path) -> None:
    """Another order of the same problems, and one problem that only one run has."""
    texts = {0: "a", 1: "b", 2: "c"}
    base = [{"problem_id": i, "question": text, "response": "x", "correct": True} for i, text in texts.items()]
    other = {0: "c", 1: "new", 2: "a"}
    rl = [{"problem_id": i, "question": text, "response": "x", "correct": text != "a"} for i, text in other.items()]
    result = ol.compare(lines(tmp_path / "base.jsonl", base), lines(tmp_path / "rl.jsonl", rl)).to_dict()
    assert [result["support"][cell] for cell in "PESO"] == [1, 0, 1, 0]
    assert any(
        "with the id of one in rl but a different text is not matched" in note["text"] for note in result["notes"]
    )


def test_names_match_under_another_template_once_texts_are_left_unread(tmp_path: Path) -> None:
    def rows(template: str, golds: Mapping[str, str]) -> list[dict[str, object]]:
        return [
            {"problem_id": name, "question": template + name, "gold": gold, "response": "x", "correct": True}
            for name, gold in golds.items()
        ]

    base = lines(tmp_path / "base.jsonl", rows("Q: ", {"aime-1": "7", "aime-2": "8"}))
    rl = lines(tmp_path / "rl.jsonl", rows("<|user|> ", {"aime-1": "7", "aime-2": "9"}))
    with pytest.raises(OffleashError, match=r"a different text.*--map question="):
        ol.compare(base, rl)
    result = ol.compare(base, rl, reading=ol.Reading(columns={"question": ""})).to_dict()
    assert [result["support"][cell] for cell in "PESO"] == [1, 0, 0, 0]  # another gold is another problem


def test_a_column_answer_that_may_be_either_is_asked_for(tmp_path: Path) -> None:
    def rows(answers: Mapping[str, str], hit: bool) -> list[dict[str, object]]:
        return [
            {"problem_id": n, "question": n, "response": "x", "answer": a, "correct": hit} for n, a in answers.items()
        ]

    base = lines(tmp_path / "base.jsonl", rows({"p": "7", "q": "8"}, True))
    rl = lines(tmp_path / "rl.jsonl", rows({"p": "7", "q": "9"}, False))
    with pytest.raises(OffleashError, match="Say what it holds: --map answer=answer"):
        ol.compare(base, rl)
    assert ol.compare(base, rl, reading=ol.Reading(columns={"answer": "answer"})).to_dict()["support"]["S"] == 2


def test_groups_of_equal_content_are_kept_apart_by_their_order(tmp_path: Path) -> None:
    """verl keeps no images: groups that ask one thing with one gold may be about different ones."""

    def rows(hits: list[bool], run: str) -> list[dict[str, object]]:
        return [
            {"input": "Is it?", "output": f"{i}", "gts": "yes", "score": float(hit), "step": 1, "uid": f"{run}{i // 2}"}
            for i, hit in enumerate(hits)
        ]

    base = lines(tmp_path / "base.jsonl", rows([True, False, False, False, True, True], "a"))
    rl = lines(tmp_path / "rl.jsonl", rows([False, False, True, False, True, True], "b"))
    result = ol.compare(base, rl).to_dict()
    assert [result["support"][cell] for cell in "PESO"] == [1, 1, 1, 0]
    assert "3 problems are kept apart by their order" in result["notes"][0]["text"]


def test_a_document_that_a_task_holds_twice_matches_by_position_first(tmp_path: Path) -> None:
    """Several GPUs write the rows of a log in another order."""
    rows = lm_eval_rows(2, [0])
    twice = [{**rows[0], "doc_id": 0}, {**rows[0], "doc_id": 1, "exact_match": 0.0}]
    base, rl = lines(tmp_path / "base.jsonl", twice), lines(tmp_path / "rl.jsonl", twice[::-1])
    result = ol.compare(base, rl).to_dict()
    assert [result["support"][cell] for cell in "PESO"] == [1, 0, 0, 1]


def counted(rows: list[dict[str, Any]], key: str) -> dict[Hashable, tuple[int, int]]:
    drawn, hits = Counter(row[key] for row in rows), Counter(row[key] for row in rows if row["correct"])
    return {name: (drawn[name], hits[name]) for name in drawn}


def sampled_rows(seed: int, **fields: Any) -> list[dict[str, Any]]:
    """Two samples each of twelve problems; fields are functions of the number of the problem and of the sample."""
    return [
        {
            "question": f"What is {n} + 1?",
            "response": "x",
            "correct": (n * 7 + k * 3 + seed) % 5 < 2,
            **{name: make(n, k) for name, make in fields.items()},
        }
        for n in range(12)
        for k in range(2)
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"problem_id": lambda n, k: None if k else f"p{n}"},
        {"id": lambda n, k: f"p{n}" if k else None},
        {"index": lambda n, k: n},
    ],
    ids=["a row without its id", "an id that only some rows have", "the number of the problem as index"],
)
def test_rows_of_one_problem_stay_together(fields: dict[str, Any], tmp_path: Path) -> None:
    base, rl = sampled_rows(0, **fields), sampled_rows(1, **fields)
    paths = lines(tmp_path / "base.jsonl", base), lines(tmp_path / "rl.jsonl", rl)
    assert_same(counted(base, "question"), counted(rl, "question"), *paths)


def test_ids_that_pandas_wrote_as_fractions_match_whole_ones(tmp_path: Path) -> None:
    base, rl = ([{"problem_id": n, "correct": n % step == 0} for n in range(12)] for step in (2, 3))
    paths = tmp_path / "base.csv", tmp_path / "rl.csv"
    for path, rows, end in zip(paths, (base, rl), (".0", ""), strict=True):
        table = "".join(f"{row['problem_id']}{end},x,{row['correct']}\n" for row in rows)
        path.write_text(f"problem_id,response,correct\n{table}")
    assert_same(counted(base, "problem_id"), counted(rl, "problem_id"), *paths)


@pytest.mark.parametrize("golds", [["yes", "no"], ["yes"]], ids=["balanced golds", "one gold"])
def test_documents_of_one_sentence_are_not_samples_of_it(golds: list[str], tmp_path: Path) -> None:
    """Every row has its own id, and contents repeat equally often, as they would if ids were those of samples."""
    tables = [
        [
            {
                "idx": n,
                "question": "Is it there?",
                "gold": golds[n % len(golds)],
                "response": "x",
                "correct": n % step == 0,
            }
            for n in range(20)
        ]
        for step in (2, 3)
    ]
    paths = [lines(tmp_path / name, rows) for name, rows in zip(("base.jsonl", "rl.jsonl"), tables, strict=True)]
    assert_same(counted(tables[0], "idx"), counted(tables[1], "idx"), *paths)


def test_the_hint_on_equal_texts_is_given_where_it_works(tmp_path: Path) -> None:
    log = lines(tmp_path / "base.jsonl", lm_eval_rows(3, [0]))
    notes = [note["text"] for note in ol.compare(log, log).to_dict()["notes"]]
    assert any("kept apart by their ids" in note for note in notes)
    assert not any("--map problem=" in note for note in notes)
    table = [{"problem_id": n, "question": "Who?", "response": "x", "correct": True} for n in range(3)]
    notes = [n["text"] for n in ol.compare(*[lines(tmp_path / "t.jsonl", table)] * 2).to_dict()["notes"]]
    assert any("--map problem= reads equal texts" in note for note in notes)


def test_the_next_step_fits_the_reason_why_nothing_is_common(tmp_path: Path) -> None:
    base, rl = ([{**row, "task_id": f"{run}-{n}"} for n, row in enumerate(sampled_rows(0))] for run in "ab")
    paths = lines(tmp_path / "base.jsonl", base), lines(tmp_path / "rl.jsonl", rl)
    with pytest.raises(OffleashError, match=r"24 problems of base .* no id decides .* treats equal texts"):
        ol.compare(*paths)
    result = ol.compare(*paths, reading=ol.Reading(columns={"problem": ""})).to_dict()
    assert result["runs"]["before"]["problems"] == 12


# Whatever repeats or differs.


ROW = st.fixed_dictionaries(
    {
        "question": st.sampled_from(["Which?", "How many?", "Why?"]),
        "gold": st.sampled_from(["1", "2", "3"]),
        "correct": st.booleans(),
        "response": st.just("x"),
    },
    optional={
        "problem_id": st.sampled_from([0, 1, 2, "a", "b"]),
        "choices": st.sampled_from([["x", "y"], ["x", "z"]]),
        "image": st.sampled_from(["cat.png", "dog.png"]),
        "benchmark": st.sampled_from(["one", "two"]),
    },
)


def shaped(rows: list[dict[str, Any]], keys: set[str]) -> list[dict[str, Any]]:
    """Rows of one log: all have the same columns, since a log has one shape."""
    fill = {"problem_id": 0, "choices": ["x", "y"], "image": "cat.png", "benchmark": "one"}
    return [
        {**{name: fill[name] for name in keys}, **{n: v for n, v in row.items() if n in keys or n not in fill}}
        for row in rows
    ]


@settings(deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=24),
    others=st.lists(ROW, min_size=1, max_size=24),
    keys=st.sets(st.sampled_from(["problem_id", "choices", "image", "benchmark"])),
)
def test_no_two_contents_are_fused_and_no_row_is_lost(
    rows: list[dict[str, Any]], others: list[dict[str, Any]], keys: set[str]
) -> None:
    with TemporaryDirectory() as folder:
        paths = [
            lines(Path(folder) / name, shaped(table, keys)) for name, table in (("a.jsonl", rows), ("b.jsonl", others))
        ]
        runs = load(*paths, options=LoadOptions(Options(texts=False)))
        contents = []
        for path, run in zip(paths, runs, strict=True):
            table = [json.loads(line) for line in path.read_text().splitlines()]
            assert run.verdicts is not None
            drawn = dict(run.verdicts.collect().group_by("problem").len().rows())
            left_out = sum(note.rows for note in run.notes if note.left_out)
            assert sum(drawn.values()) + left_out == len(table)
            key = [
                tuple(str(row.get(n)) for n in ("problem_id", "question", "gold", "choices", "image", "benchmark"))
                for row in table
            ]
            assert sorted(drawn.values()) == sorted(Counter(key).values())
            contents.append({p: (q, g) for p, q, g in run.problems.select("problem", "question", "gold").rows()})
        shared = {*contents[0].values()} & {*contents[1].values()}
        try:
            own = match(runs).own[1]
        except OffleashError:
            return
        assert shared
        for name, other in own.select("problem", "own").rows():
            assert contents[0][name] == contents[1][other]
