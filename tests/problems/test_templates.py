"""Templates of prompts: places are filled, LaTeX is not touched, and what cannot be answered is refused."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.errors import OffleashError
from offleash.problems.templates import check_template, read_template, with_template


def frame(question: str = "2+2?", prompt: str | None = None, **details: object) -> pl.DataFrame:
    row = {"problem": "p", "benchmark": "b", "question": question, "gold": "4", "prompt": prompt}
    return pl.DataFrame([{**row, "details": json.dumps(details) if details else None}], infer_schema_length=None)


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ("{question} In \\boxed{}.", "2+2? In \\boxed{}."),
        ("{{ question }}\n{{question}}", "2+2?\n2+2?"),
        ("\\frac{a}{b} \\text{x} {question} {gold}", "\\frac{a}{b} \\text{x} 2+2? {gold}"),
        ("{id}/{benchmark}: {question}", "p/b: 2+2?"),
        ("First: {prompt}", "First: 2+2? Please."),
        ("{level} {question} {choices}", "hard 2+2? A. 3\nB. 4"),
    ],
)
def test_places_are_filled_and_all_other_braces_are_text(template: str, asked: str) -> None:
    problems = frame(prompt="2+2? Please.", choices=["3", "4"] if "choices" in template else [], level="hard")
    assert with_template(problems, template)["prompt"].to_list() == [asked]


@given(question=st.text())
def test_a_question_goes_in_word_for_word(question: str) -> None:
    assert with_template(frame(question), "Q: {question} \\boxed{}")["prompt"][0] == f"Q: {question} \\boxed{{}}"


def test_choices_and_starter_code_are_not_left_out() -> None:
    for name, problems in {"choices": frame(choices=["a", "b"]), "starter": frame(starter="def f():")}.items():
        with pytest.raises(OffleashError, match=rf"'p' has .* Add \{{{name}\}}"):
            with_template(problems, "{question}")
        assert with_template(problems, f"{{question}} {{{name}}}").height
        assert with_template(problems, "Please: {prompt}").height


def test_a_question_that_shows_its_choices_itself_needs_no_place_for_them() -> None:
    problems = frame("Which? (A) three (B) four", choices=["three", "four"])
    assert with_template(problems, "{question}!")["prompt"][0] == "Which? (A) three (B) four!"


@pytest.mark.parametrize("text", ["", "Solve this.", "{Question}", "{ question", "\\boxed{question"])
def test_a_template_without_the_question_is_refused(text: str) -> None:
    with pytest.raises(OffleashError, match="question"):
        check_template(text, "t.txt")


def test_files_that_are_no_template_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_text("{question}" + " " * (1 << 20))
    for name, said in (("binary", "UTF-8"), ("large", "too many"), (".", "cannot be read"), ("none", "no prompt")):
        with pytest.raises(OffleashError, match=said):
            read_template(tmp_path / name)
    (tmp_path / "good").write_text("{question}\n")
    assert read_template(tmp_path / "good") == "{question}"
