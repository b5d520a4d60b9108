"""The verb `likelihood` as it is typed: from two run folders and a file of traces to a report."""

import json
from pathlib import Path

import pytest

from offleash.analyses.likelihood.perplexity_by_class import (
    ALL_SAMPLES,
    CORRECT,
    models_with_selected_scores,
    perplexities,
)
from offleash.comparing.per_problem import detail
from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs
from offleash.samplers.sampler import SamplingParams
from tests.analyses.likelihood.likelihood_world import World, problems, world
from tests.cli.command import offleash, refused
from tests.verifying.samples import run_of_texts

FEW = ("--replicates", "200", "--first", "8", "--at", "2")
KEYS = {
    "schema", "kind", "k", "epsilon", "first", "classes", "runs", "scored_now", "traces", "perplexity", "style",
    "cross_support", "leash", "notes", "finding",
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    return tiny.run(folder / "base", "before", 48), tiny.run(folder / "rl", "after", 48)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("traces") / "traces.jsonl"
    rows: list[dict[str, object]] = [
        {"problem": problem, "text": text, "author": "some\x1b[31mone", "correct": correct}
        for problem in problems()["problem"]
        for text, correct in (("a b", True), ("b", True), ("b a b", False))
    ]
    rows += [{"problem": "p00", "text": "a", "author": "x"}, {"problem": "p1", "text": "", "author": "x"}]
    rows += [{"problem": "p1", "text": "a " * 90, "author": "someone else"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    return file


def test_from_two_runs_and_traces_to_a_report_in_words(runs: tuple[str, str], traces: Path) -> None:
    result = offleash("likelihood", *runs, "--traces", traces, *FEW)
    assert result.code == 0, result.err
    assert "Scoring " in result.err  # before it begins
    assert "50 external traces" in result.out
    for words in (
        "written by base (self-generated)", "written by some", "someone else", "correct minus wrong", "Cross-support",
        "mean over 8 problems", "KL(base || rl)", "Perplexity mixes style with substance", "1 empty trace left out",
        "1 duplicate row left out", "'p00' (nearest: 'p0')", "scored in overlapping windows",
    ):  # fmt: skip
        assert words in " ".join(result.out.split()), words
    assert "\x1b" not in result.out
    last = " ".join(result.out.split("\n\n")[-1].split())
    assert "Length of the leash, mean over problems: KL(base || rl) = " in last
    shown = " ".join(result.out.split())
    assert (
        "Perplexity per token of traces that are correct or have no verdict (1 without), written by someone else"
        in shown
    )
    assert "Perplexity per token of correct traces, written by base (self-generated)" in shown
    assert "just under" not in shown
    assert " own " in shown  # k is 2, so the other's own samples say more
    again = offleash("likelihood", *runs, "--traces", traces, *FEW)
    assert "already stored" in again.err
    assert "scored now" not in again.out


def test_the_document_holds_all_of_it_and_no_number_that_json_lacks(runs: tuple[str, str], traces: Path) -> None:
    result = offleash("likelihood", *runs, "--traces", traces, *FEW, "--json")
    assert result.code == 0, result.err
    document = result.json
    assert set(document) == KEYS
    assert (document["schema"], document["kind"], document["k"], document["first"]) == (2, "likelihood", 2, 8)
    assert sum(document["classes"].values()) == pytest.approx(len(problems()))
    assert document["runs"]["after"]["decoding"]["max_tokens"] == 3
    assert document["traces"]["unknown_problems"] == [{"problem": "p00", "nearest": "p0"}]
    assert (document["traces"]["windowed"], document["traces"]["duplicates"], document["traces"]["empty"]) == (1, 1, 1)
    own = [group for group in document["perplexity"] if group["self_generated"]]
    assert {group["author"] for group in own} == {"base", "rl"}
    for group in document["perplexity"]:
        assert group["perplexity"]["before"]["value"] >= 1
        assert group["problems"] <= group["traces"]
    for row in document["cross_support"]["problems"]:
        assert row["class"] in "ES"
        assert 0 <= row["certain_bound"] <= 1
        assert row["reading"] in ("missed", "within reach", "cannot tell")
        assert row["other_drawn"] == 48
    assert document["cross_support"]["both_runs_reason"] is None
    assert document["cross_support"]["both_runs"]["unusable"] == {"before": 0, "after": 0}
    assert document["cross_support"]["both_runs"]["unjudged"] == {"before": 0, "after": 0}
    assert {group["unjudged"] for group in document["perplexity"] if group["author"] == "someone else"} == {1}
    assert {group["unjudged"] for group in own} == {0}
    assert [divergence["of"] for divergence in document["leash"]["divergences"]] == ["before", "after"]
    assert document["finding"].endswith(".")


def test_traces_of_one_problem_have_no_interval_and_the_finding_says_so(tmp_path: Path, runs: tuple[str, str]) -> None:
    cells = {}
    for number, problem in enumerate(problems()["problem"]):
        file = tmp_path / f"{number}.jsonl"
        file.write_text(json.dumps({"problem": problem, "text": "a b", "author": "x"}) + "\n")
        document = offleash("likelihood", *runs, "--traces", file, *FEW, "--json").json
        (group,) = (group for group in document["perplexity"] if not group["self_generated"])
        assert group["log_ratio"]["interval"] == [None, None]
        cells[group["class"]] = document["finding"]
        if len(cells.keys() & set("ESO")):
            break
    (cell,) = cells.keys() & set("ESO")
    assert f"The traces of x on {cell} are likelier" in cells[cell]
    assert cells[cell].endswith("; one problem, so no interval.")
    assert "holds 0" not in cells[cell]


def test_without_scoring_only_what_stands_is_reported(tmp_path: Path, tiny: World) -> None:
    fresh = [tiny.run(tmp_path / side, side, 8) for side in ("before", "after")]
    refused(offleash("likelihood", *fresh, "--no-scoring"), "No sample", "Leave out --no-scoring")
    assert offleash("likelihood", *fresh, "--first", "2", "--json").code == 0
    assert offleash("likelihood", *fresh, "--no-scoring", "--first", "2", "--json").json["scored_now"]["samples"] == 0


def test_scores_of_the_verb_are_ordinary_scores_of_the_runs(runs: tuple[str, str], tiny: World) -> None:
    assert offleash("likelihood", *runs, *FEW).code == 0
    scored = offleash("score", runs[1], "--model", f"hf:{tiny.models['before']}", "--first", "8", "--json")
    assert scored.json["runs"][0]["new"] == 0
    assert offleash("fsck", runs[1]).code == 0


def test_a_run_scored_on_its_right_samples_alone_has_no_perplexity_of_all(tmp_path: Path, tiny: World) -> None:
    drawn = [tiny.run(tmp_path / side, side, 8) for side in ("before", "after")]
    model, few = f"hf:{tiny.models['before']}", question(replicates=200)
    for chosen, kinds in ((("--only", "correct"), {CORRECT}), (("--first", "3"), {CORRECT, ALL_SAMPLES})):
        assert offleash("score", drawn[0], "--model", model, *chosen).code == 0
        (first,), _ = compare_inputs(drawn, None, few)
        result = perplexities(detail(first))
        assert {spread.traces for spread in result} == kinds
        assert len(models_with_selected_scores(result)) == 2 - len(kinds)
    assert sum(spread.samples for spread in result if spread.traces == ALL_SAMPLES) == 3 * len(problems())


def test_runs_at_other_temperatures_are_compared_only_when_that_is_allowed(
    tmp_path: Path, runs: tuple[str, str], tiny: World
) -> None:
    cool = tiny.run(tmp_path / "cool", "after", 8, SamplingParams(temperature=0.6, max_tokens=3))
    refused(offleash("likelihood", runs[0], cool, *FEW), "--allow decoding")
    result = offleash("likelihood", runs[0], cool, *FEW, "--allow", "decoding", "--json")
    assert result.code == 0, result.err
    assert "temperature 0.6" in result.json["leash"]["reason"]
    assert result.json["cross_support"]["reason"] is None


def test_imported_runs_need_their_models_named_and_say_what_is_missing_without_a_decoding(
    tmp_path: Path, tiny: World
) -> None:
    golds = {f"p{i}": str(1 + i % 2) for i in range(3)}
    right, wrong = ({name: [f"a \\boxed{{{gold}}}", other] for name, gold in golds.items()} for other in ("b", "a a"))
    right["p0"], wrong["p1"] = ["b", "a"], ["b", "a"]
    folders = [
        run_of_texts(tmp_path / name, golds, texts, "string") for name, texts in (("one", right), ("two", wrong))
    ]
    assert offleash("verify", *folders, "--jobs", "1", "--no-cache").code == 0
    models = ["--model-before", f"hf:{tiny.models['before']}", "--model-after", f"hf:{tiny.models['after']}"]
    bare = offleash("likelihood", *folders, *models, "--replicates", "200", "--json")
    assert bare.code == 0, bare.err
    assert "--decoding" in bare.json["cross_support"]["reason"]
    assert "was imported without its decoding" in bare.json["leash"]["reason"]
    assert bare.json["perplexity"]
    assert "Of the correct samples of one, log two - log one per token by class: " in bare.json["finding"]
    assert (
        "Cross-support and the length of the leash need the decoding of the runs: --decoding" in (bare.json["finding"])
    )
    told = offleash("likelihood", *folders, *models, "--replicates", "200", "--decoding", "plain", "--json").json
    assert {row["class"]: row["problem"] for row in told["cross_support"]["problems"]} == {"E": "p0", "S": "p1"}
    assert all(row["estimate"] > 0 for row in told["cross_support"]["problems"])
    assert len(told["leash"]["divergences"]) == 2
    assert any("go unnoticed" in note for note in told["notes"])


def test_what_cannot_be_done_is_refused_with_the_next_step(tmp_path: Path, runs: tuple[str, str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"problem": "p0", "verdict": "correct"}\n')
    imported = run_of_texts(tmp_path / "imported", {"p": "a"}, {"p": ["a"]})
    refused(offleash("likelihood", log, runs[1]), "offleash import", "then offleash likelihood")
    refused(offleash("likelihood", runs[0], tmp_path / "nowhere"), "nowhere")
    refused(offleash("likelihood", *runs, "--first", "0"), "--first")
    refused(offleash("likelihood", *runs, "--traces", tmp_path / "no.jsonl"), "no.jsonl", "JSONL")
    refused(offleash("likelihood", *runs, "--model-after", "vllm"), "hf:vllm")
    refused(offleash("likelihood", *runs, "--map", "txt=a", "--traces", log), "Did you mean 'text'?")
    refused(offleash("likelihood", *runs, "--traces", log), "no 'text'")
    refused(offleash("likelihood", *runs, "--model-after", "hf:/no/such/model", *FEW), "/no/such/model")
    refused(offleash("likelihood", *runs, "--temperature", "0.6"), "Leave out --decoding")
    refused(offleash("likelihood", imported, runs[1]), "imported")
