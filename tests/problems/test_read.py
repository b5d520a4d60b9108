"""Problems from users' files: columns under usual names, verl and TRL data sets, and golds that stay exact."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from offleash.data.tables import PROBLEMS, question_hash
from offleash.errors import OffleashError
from offleash.problems.problem import ProblemSet
from offleash.problems.read import read_problems

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def write_rows(folder: Path, *rows: dict[str, Any], name: str = "mine.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def first(loaded: ProblemSet) -> dict[str, Any]:
    return loaded.frame.row(0, named=True)


def test_the_table_has_the_schema_of_problems(tmp_path: Path) -> None:
    frame = read_problems(write_rows(tmp_path, {"id": "a", "question": "1+1?", "answer": "2"})).frame
    assert dict(frame.schema) == PROBLEMS
    assert frame["hash"][0] == question_hash("1+1?")


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "question": "1+1?", "answer": "2"},
        {"unique_id": "a", "problem": "1+1?", "solution": r"So \boxed{2}."},
        {"qid": "a", "prompt": "1+1?", "ground_truth": "2"},
        {"uid": "a", "query": "1+1?", "target": 2},
        {"problem_id": "a", "instruction": "1+1?", "reference_answer": ["2"]},
        {"problem": "a", "question": "1+1?", "gold": "2"},
        {"ID": "a", "Question": "1+1?", "Final Answer": "2"},
        {"id": "a", "input": "1+1?", "solution": "2"},
    ],
)
def test_columns_are_known_by_their_usual_names(tmp_path: Path, row: dict[str, Any]) -> None:
    read = first(read_problems(write_rows(tmp_path, row)))
    assert (read["problem"], read["question"], read["gold"]) == ("a", "1+1?", "2")


def test_a_column_is_named_with_map(tmp_path: Path) -> None:
    path = write_rows(tmp_path, {"question": "old?", "neu": "1+1?", "answer": "3", "richtig": "2"})
    read = first(read_problems(path, columns={"question": "neu", "gold": "richtig"}))
    assert (read["question"], read["gold"]) == ("1+1?", "2")
    with pytest.raises(OffleashError, match=r"no column 'nue'.*question, neu"):
        read_problems(path, columns={"question": "nue"})
    with pytest.raises(OffleashError, match="Did you mean 'gold'"):
        read_problems(path, columns={"golds": "richtig"})


def test_what_was_read_from_where_is_told(tmp_path: Path) -> None:
    loaded = read_problems(write_rows(tmp_path, {"id": "a", "question": "1+1?", "answer": "2", "level": 3}))
    assert "gold <- answer" in loaded.notes[0].text
    assert "not used: level" in loaded.notes[0].text


def test_a_verl_data_set_is_read(tmp_path: Path) -> None:
    rows = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{n}+1?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(n + 1)},
            "extra_info": {"split": "test", "index": n},
        }
        for n in range(2)
    ]
    path = tmp_path / "test.parquet"
    pl.DataFrame(rows).write_parquet(path)
    for read in (read_problems(path).frame, read_problems(write_rows(tmp_path, *rows)).frame):
        assert read["problem"].to_list() == ["openai/gsm8k/test/0", "openai/gsm8k/test/1"]
        assert read["gold"].to_list() == ["1", "2"]
        assert read["benchmark"].to_list() == ["openai/gsm8k"] * 2
        assert read["prompt"][0] == "Be brief.\n\n0+1?"  # it is a prompt already: nothing is added


def test_verl_countdown_targets_become_details(tmp_path: Path) -> None:
    row = {"prompt": "Make 5.", "reward_model": {"ground_truth": {"target": 5, "numbers": [2, 3]}}}
    read = first(read_problems(write_rows(tmp_path, row)))
    assert read["verifier"] == "countdown"
    assert json.loads(read["details"]) == {"target": 5, "numbers": [2, 3]}


@pytest.mark.parametrize("prompt", ["1+1?", [{"role": "user", "content": "1+1?"}]])
def test_a_trl_data_set_is_read(tmp_path: Path, prompt: object) -> None:
    read = first(read_problems(write_rows(tmp_path, {"prompt": prompt, "solution": r"$1+1=\boxed{2}$"})))
    assert (read["question"], read["gold"], read["prompt"]) == ("1+1?", "2", "1+1?")


def test_a_question_is_asked_with_a_boxed_instruction_unless_it_has_one(tmp_path: Path) -> None:
    plain = {"id": "a", "question": "1+1?", "answer": "2"}
    with_format = {"id": "b", "question": r"1+1? Put it in \boxed{}.", "answer": "2"}
    own = {"id": "c", "question": "1+1?", "prompt": "Sum one and one.", "answer": "2"}
    prompts = read_problems(write_rows(tmp_path, plain, with_format, own)).frame["prompt"].to_list()
    assert prompts[0] == "1+1?\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    assert prompts[1:] == [with_format["question"], "Sum one and one."]


@pytest.mark.parametrize(
    ("literal", "gold"),
    [("10.0", "10.0"), ("0.10", "0.10"), ("1e-5", "1e-5"), ("27", "27"), ('"027"', "027"), ("1e400", "1e400")],
)
@pytest.mark.parametrize("shape", ["{row}\n", "[{row}]", "[\n{row},\n{row}]"])
def test_numbers_keep_the_digits_of_the_file(tmp_path: Path, literal: str, gold: str, shape: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(shape.replace("{row}", f'{{"id": 1, "question": "q", "answer": {literal}}}'))
    assert first(read_problems(path))["gold"] == gold


def test_gsm8k_answers_follow_the_hashes_without_commas(tmp_path: Path) -> None:
    row = {"question": "How much?", "answer": "2 * 1,062.5 = <<2*1062.5=2125>>2125\n#### 2,125"}
    assert first(read_problems(write_rows(tmp_path, row)))["gold"] == "2125"


def test_a_solution_without_a_box_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path, {"question": "How much?", "solution": "First\nthen second"})
    with pytest.raises(OffleashError, match=r"row 1: the solution has no \\boxed"):
        read_problems(path)


@pytest.mark.parametrize("right", ["B", "b", "(B)", "four", 1, "1"])
@pytest.mark.parametrize("choices", [["three", "four"], {"label": ["A", "B"], "text": ["three", "four"]}])
def test_choices_give_a_letter_and_a_guess_floor(tmp_path: Path, right: object, choices: object) -> None:
    read = first(read_problems(write_rows(tmp_path, {"question": "2+2?", "choices": choices, "answer": right})))
    assert (read["gold"], read["verifier"], read["guess"]) == ("B", "choice", 0.5)
    assert json.loads(read["details"]) == {"choices": ["three", "four"]}
    assert "A. three\nB. four" in read["prompt"]


def test_an_answer_that_is_none_of_the_choices_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path, {"question": "2+2?", "options": ["three", "four"], "answer": "five"})
    with pytest.raises(OffleashError, match="row 1: the answer 'five' is not among the 2 choices"):
        read_problems(path)


def test_images_become_data_addresses_and_part_of_the_hash(tmp_path: Path) -> None:
    (tmp_path / "figure.png").write_bytes(PNG)
    row = {"id": "a", "question": "How many?", "answer": "2"}
    shown = first(read_problems(write_rows(tmp_path, {**row, "images": ["figure.png"]})))
    bare = first(read_problems(write_rows(tmp_path, row)))
    assert shown["images"] == [f"data:image/png;base64,{base64.b64encode(PNG).decode()}"]
    assert shown["hash"] != bare["hash"]
    path = tmp_path / "p.parquet"
    pl.DataFrame([{**row, "image": {"bytes": PNG, "path": None}}]).write_parquet(path)
    assert first(read_problems(path))["images"] == shown["images"]


@pytest.mark.parametrize(
    ("image", "message"),
    [("https://x.org/a.png", "is a URL"), ("none.png", "cannot be read"), (7, "give its bytes")],
)
def test_images_that_cannot_be_kept_are_refused(tmp_path: Path, image: object, message: str) -> None:
    with pytest.raises(OffleashError, match=f"row 1: .*{message}"):
        read_problems(write_rows(tmp_path, {"question": "q", "answer": "2", "image": image}))


def test_csv_tables_keep_texts_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('id;question;answer;choices\n1;"a; b?";007;\n2;q;"[1, 2]";\n3;q3;B;"[""x"", ""y""]"\n')
    frame = read_problems(path).frame
    assert frame["question"].to_list() == ["a; b?", "q", "q3"]
    assert frame["gold"].to_list() == ["007", "[1, 2]", "B"]
    assert json.loads(frame["details"][2]) == {"choices": ["x", "y"]}


def test_a_problem_that_comes_twice_is_kept_once_and_told(tmp_path: Path) -> None:
    row = {"id": "a", "question": "1+1?", "answer": "2"}
    loaded = read_problems(write_rows(tmp_path, row, row, {**row, "id": "b"}))
    assert loaded.frame["problem"].to_list() == ["a", "b"]
    assert [(note.rows, note.left_out) for note in loaded.notes if note.left_out] == [(1, True)]


def test_two_problems_of_one_id_are_refused_and_can_be_numbered(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path, {"id": 1, "question": "1+1?", "answer": "2"}, {"id": 1, "question": "1+2?", "answer": "3"}
    )
    with pytest.raises(OffleashError, match="rows 1 and 2 have the same id '1' but differ"):
        read_problems(path)
    assert read_problems(path, columns={"problem": ""}).frame["problem"].to_list() == ["mine-0", "mine-1"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_encodings_and_gzip_are_read(tmp_path: Path, encoding: str, pack: Any) -> None:
    path = tmp_path / "mine"
    path.write_bytes(pack('{"question": "Größe\u2028?", "answer": "2"}\n'.encode(encoding)))
    assert first(read_problems(path))["question"] == "Größe\u2028?"
