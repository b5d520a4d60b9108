"""compare, report and study with --fail-if: exit codes, what is printed, and refusals before any work."""

from pathlib import Path

import pytest

import offleash as ol
from tests.cli.command import offleash, refused
from tests.places import EXAMPLES

COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")
FEW = ("--replicates", "500")
MODEL = f"scripted:{EXAMPLES / 'sums.json'}"


def test_a_condition_that_fails_is_exit_code_3_and_each_is_printed_last_with_its_value() -> None:
    done = offleash("compare", *COUNTS, "--fail-if", "SRR<0.95,NDR>0.9", "--fail-if", "SRR<0.87", *FEW)
    assert (done.code, done.err) == (3, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()][-3:]
    assert [line.split("(")[0] for line in lines] == [
        "! rl: SRR<0.95 fails ",
        "· rl: NDR>0.9 passes ",
        "· rl: SRR<0.87 not decided ",
    ]
    assert lines[0].startswith("! rl: SRR<0.95 fails (0.871 [0.8")
    assert "; unchanged model 0.960)" in lines[0]


def test_conditions_that_pass_or_are_not_decided_are_exit_code_0() -> None:
    done = offleash("compare", *COUNTS, "--fail-if", "SRR<0.5", "--fail-if", "SRR<0.87", *FEW)
    assert done.code == 0
    assert "passes" in done.out


def test_json_has_the_conditions_and_the_same_exit_code() -> None:
    done = offleash("compare", *COUNTS, "--fail-if", "SRR<0.95", "--json", *FEW)
    assert done.code == 3
    (checked,) = done.json["conditions"]
    assert (checked["run"], checked["condition"], checked["outcome"]) == ("rl", "SRR<0.95", "fails")
    assert checked["interval"] == done.json["support"]["interval"]["SRR"]
    assert checked["redraw"] == done.json["support"]["redraw"]["SRR"]
    assert "conditions" not in offleash("compare", *COUNTS, "--json", *FEW).json


def test_python_has_the_conditions_of_the_command_line() -> None:
    result = ol.compare(*COUNTS, fail_if=["SRR<0.95"], replicates=500)
    assert (
        result.to_dict()["conditions"]
        == offleash("compare", *COUNTS, "--fail-if", "SRR<0.95", "--json", *FEW).json["conditions"]
    )


def test_a_list_of_problems_is_followed_by_the_conditions() -> None:
    done = offleash("compare", *COUNTS, "--list", "lost", "--fail-if", "losses>0", *FEW)
    assert done.code == 3
    assert "rl: losses>0 fails (at least " in done.out.splitlines()[-1]


@pytest.mark.parametrize("format_name", ["md", "html"])
def test_a_report_has_them_too(tmp_path: Path, format_name: str) -> None:
    out = tmp_path / f"report.{format_name}"
    done = offleash("report", *COUNTS, "--fail-if", "SRR<0.95", "-o", out, *FEW)
    assert done.code == 3
    assert "SRR<0.95 fails" in done.out
    text = out.read_text(encoding="utf-8")
    assert (
        "| `SRR<0.95` | **fails** |" if format_name == "md" else 'data-outcome="fails">rl: SRR&lt;0.95 fails'
    ) in text


@pytest.mark.parametrize("condition", ["SSR<0.95", "SRR<95", "SRR", "losses<3"])
def test_a_bad_condition_is_refused_before_the_runs_are_read(condition: str, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.csv"
    for verb in ("compare", "report"):
        done = offleash(verb, missing, missing, "--fail-if", condition)
        refused(done, condition.split("<")[0])
        assert "nowhere" not in done.err
    study = offleash("study", missing, MODEL, MODEL, "-k", "4", "-o", tmp_path / "s", "--fail-if", condition)
    refused(study, condition.split("<")[0])
    assert "nowhere" not in study.err


def test_more_samples_than_there_are_and_answers_are_refused(tmp_path: Path) -> None:
    refused(offleash("compare", *COUNTS, "--fail-if", "pass@2048<0.5", *FEW), "pass@2048", "1,024")
    refused(offleash("compare", *COUNTS, "--per", "answer", "--fail-if", "pass@1<0.5"), "per problem", "--per answer")
    problems = EXAMPLES / "problems.jsonl"
    study = offleash("study", problems, MODEL, MODEL, "-k", "4", "-o", tmp_path / "s", "--fail-if", "pass@8<0.5")
    refused(study, "pass@8", "4")
    assert not (tmp_path / "s").exists()


def test_figure_and_view_have_no_conditions(tmp_path: Path) -> None:
    for verb in (("figure", "plane"), ("view",)):
        refused(offleash(*verb, *COUNTS, "--fail-if", "SRR<0.9"), "--fail-if")


def test_a_study_ends_with_the_headline_and_its_conditions(tmp_path: Path) -> None:
    problems = EXAMPLES / "problems.jsonl"
    file = tmp_path / "study.yaml"
    file.write_text(
        f"models: {{base: '{MODEL}', rl: '{MODEL}'}}\nbenchmarks: ['{problems}']\nbudgets: 16\n"
        f"fail_if: ['pass@1<0.99']\nout: {tmp_path / 'a'}\n"
    )
    typed = ("study", problems, MODEL, MODEL, "-k", "16", "-o", tmp_path / "b", "--fail-if", "pass@1<0.99")
    for done in (offleash("study", file), offleash(*typed)):
        assert done.code == 3, done.err
        assert "Within 16 samples rl" in done.out
        assert "rl: pass@1<0.99 fails" in done.out.splitlines()[-1]
        assert "Report:" in done.out
    document = offleash("study", file, "--json")
    assert (document.code, document.json["conditions"][0]["outcome"]) == (3, "fails")
