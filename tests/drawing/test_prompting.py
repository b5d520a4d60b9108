"""Prompts of the user's own: stored with a run, part of its seeds, and no change to runs without them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Result, offleash, refused
from tests.drawing.drawn_world import problems_file, samples, script
from tests.samplers.huggingface.tiny import tiny_model

BEFORE = Path(__file__).parent / "before_prompts"  # drawn by a version without --prompt, --system and --chat-kwargs


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run folders of an older version, where their model is named by a relative path."""
    shutil.copytree(BEFORE, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return tmp_path / "old"


@pytest.mark.parametrize(("folder", "more"), [("run", ()), ("until", ("--until", "3"))])
def test_a_run_of_an_older_version_is_resumed_with_no_new_sample(
    stored: Path, folder: str, more: tuple[str, ...]
) -> None:
    words = ("draw", "problems.jsonl", "scripted:base.json", *more, "--jobs", "1", "--json")
    before, key = samples(stored / folder), draw_section(stored / folder)["key"]
    again = offleash(*words, "-k", "40", "-o", folder)
    assert (again.code, again.json["new"]) == (0, 0), again.err
    assert offleash(*words, "-k", "60", "-o", folder).code == 0
    assert offleash(*words, "-k", "60", "-o", "fresh").code == 0
    assert draw_section(stored / "fresh")["key"] == key, "the seeds of all samples follow from it"
    assert samples(stored / folder).equals(samples(stored / "fresh"))
    first = samples(stored / folder).join(before, on=["problem", "index"], how="semi")
    assert first.equals(before)


def test_without_these_options_run_json_has_none_of_their_keys(stored: Path) -> None:
    assert offleash("draw", "problems.jsonl", "scripted:base.json", "-k", "4", "-o", "new").code == 0
    old, new = draw_section(stored / "run"), draw_section(stored / "new")
    assert (old.keys(), old["about"].keys()) == (new.keys(), new["about"].keys())


def draw_section(folder: Path) -> dict[str, Any]:
    section: dict[str, Any] = json.loads((folder / "run.json").read_text())["draw"]
    return section


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    problems_file(tmp_path / "problems.jsonl", 3)
    script(tmp_path / "base.json", (0.5, 0.5, 0.5))
    (tmp_path / "brief.txt").write_text("{question}\nBe brief: \\boxed{}, never \\frac{a}{b}. ({id})\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drawn(*more: str) -> Result:
    return offleash("draw", "problems.jsonl", "scripted:base.json", "-k", "8", "--jobs", "1", *more)


def test_a_template_a_system_message_and_variables_are_stored_and_change_the_samples(world: Path) -> None:
    options = {
        "plain": (),
        "prompt": ("--prompt", "brief.txt"),
        "system": ("--system", "Think."),
        "kwargs": ("--chat-kwargs", "enable_thinking=false", "--chat-kwargs", "effort=low"),
    }
    for name, more in options.items():
        assert drawn("-o", name, *more).code == 0
    sections = {name: draw_section(world / name) for name in options}
    assert len({str(section["key"]) for section in sections.values()}) == 4
    assert sections["prompt"]["prompt"] == "{question}\nBe brief: \\boxed{}, never \\frac{a}{b}. ({id})"
    assert sections["system"]["about"]["system"] == "Think."
    assert sections["kwargs"]["about"]["chat_kwargs"] == {"enable_thinking": False, "effort": "low"}
    assert not samples(world / "plain", "text").equals(samples(world / "prompt", "text"))
    warned = offleash("compare", "plain", "prompt", "--json").json["warnings"]
    assert [warning["code"] for warning in warned].count("prompts_differ") == 1
    asked = offleash("draw", "problems.jsonl", "scripted:base.json", "-k", "8", "-o", "prompt", "--prompt", "brief.txt")
    assert "nothing to do" in asked.out


@pytest.mark.parametrize("more", [("--prompt", "brief.txt"), ("--system", "Think."), ("--chat-kwargs", "a=1")])
def test_a_run_is_not_mixed_with_another_prompt(world: Path, more: tuple[str, str]) -> None:
    assert drawn("-o", "run").code == 0
    refused(drawn("-o", "run", *more), "different settings")
    assert drawn("-o", "asked", *more).code == 0
    refused(drawn("-o", "asked"), "different settings")


def test_what_would_have_no_effect_is_refused(world: Path) -> None:
    refused(drawn("-o", "run", "--system", "Think.", "--raw"), "--system", "--raw")
    refused(drawn("-o", "run", "--system", " "), "--system takes a text")
    refused(drawn("-o", "run", "--prompt", "none.txt"), "no prompt template none.txt", "{question}")
    (world / "asks.txt").write_text("Solve it. \\boxed{}")
    refused(drawn("-o", "run", "--prompt", "asks.txt"), "does not contain the question", "{question}")
    (world / "typo.txt").write_text("{qestion} {question}")
    refused(drawn("-o", "run", "--prompt", "typo.txt"), "{qestion}", "Did you mean {question}")
    model = tiny_model(world / "tiny")  # without a chat template
    words = ("draw", "problems.jsonl", f"hf:{model}", "-k", "2", "--max-tokens", "2", "-o", "run")
    refused(offleash(*words, "--system", "a b"), "has no chat template", "--prompt FILE")
    assert not (world / "run").exists()


TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}{% if brief %}a{% else %}b{% endif %}"


def test_a_model_reads_the_system_message_and_the_variables(world: Path) -> None:
    model = tiny_model(world / "tiny")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    words = ("draw", "problems.jsonl", f"hf:{model}", "-k", "4", "--max-tokens", "2", "--no-verify")
    for name, more in {"plain": (), "brief": ("--chat-kwargs", "brief=true", "--system", "c d")}.items():
        done = offleash(*words, *more, "-o", name)
        assert done.code == 0, done.err
    assert draw_section(world / "plain")["template"] != draw_section(world / "brief")["template"]
    refused(offleash(*words, "-o", "other", "--chat-kwargs", "breif=true"), "no variable 'breif'", "no effect")
    # scores of a run's own samples are computed after the prompts that the samples were drawn with
    compared = offleash("likelihood", "plain", "brief", "--first", "2", "--at", "2", "--json")
    assert "formats prompts differently" not in compared.out + compared.err
    (model / "chat_template.jinja").write_text("{{ messages[-1].content }} {% if brief %}a{% endif %}")
    refused(offleash(*words, "-o", "other", "--system", "c d"), "ignores the system message", "--prompt FILE")
