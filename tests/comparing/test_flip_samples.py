"""The samples shown for review: different answers first, and nothing that could steer a terminal."""

from pathlib import Path

from offleash.comparing.flip_samples import WIDTH, snippet
from offleash.render.escape import clean
from tests.comparing.flip_world import Drawn, flips_between, wrong


def test_different_answers_are_shown_before_repeated_ones(tmp_path: Path) -> None:
    def said(answer: str) -> Drawn:
        return Drawn({"math@1": "correct", "string@1": "wrong"}, "boxed", "stop", answer, f"is {answer}")

    before = {"p": [said("7"), said("7"), said("7.0"), said("7"), said("14/2"), wrong()]}
    found = flips_between(tmp_path, before, {"p": [wrong()] * 6})
    samples = found.problems[0].samples
    assert [(sample.index, sample.answer, sample.alike) for sample in samples] == [
        (0, "7", 3),
        (2, "7.0", 1),
        (4, "14/2", 1),
    ]
    assert found.problems[0].deciding == 5


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\u2066 [bold]x[/bold]\r\n\u2028 \x9b31m\x00 the answer is 7"


def test_snippets_hold_no_control_characters(tmp_path: Path) -> None:
    bad = Drawn({"math@1": "correct", "string@1": "wrong"}, "boxed", "stop", "\x1b[31m7", HOSTILE * 50)
    found = flips_between(tmp_path, {"p": [bad, wrong()]}, {"p": [wrong(), wrong()]})
    (sample,) = found.problems[0].samples
    assert sample.text is not None
    assert sample.answer is not None
    assert sample.text.isprintable()
    assert sample.answer.isprintable()
    assert len(sample.text) <= WIDTH + 2
    assert sample.text.endswith("the answer is 7")


def test_a_snippet_is_the_end_of_the_text_around_the_answer() -> None:
    text = "first 42. " + "a" * 3000 + " hence 42 apples. " + "b" * 500
    assert " hence 42 apples. " in snippet(text, "42")
    assert snippet(text, "42").startswith("…a")
    assert snippet(text, "nowhere") == "…" + "b" * WIDTH
    assert snippet(text, None) == "…" + "b" * WIDTH
    assert snippet("short 7", "7") == "short 7"
    assert snippet("", "7") == ""
    assert len(snippet(text, "a" * 2900)) <= WIDTH + 2
    assert clean("a\tb\n\n c") == "a b c"
