"""Logs of evaluation tools: counts as a plain script has them, and what is particular to each format."""

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offleash as ol
from offleash.errors import OffleashError
from offleash.logs.format import Options
from tests.effort import examples
from tests.logs import plain_evaluation as plain
from tests.logs.log_reading import FIXTURES, lines, notes_text, read, verdicts
from tests.logs.plain_counts import assert_same
from tests.logs.test_log_damage import VALUES

SHAPES: dict[str, tuple[Callable[[Path], plain.Counts], str]] = {
    "bigcodebench": (plain.bigcodebench, "bigcodebench/{}_eval_results.json"),
    "evalplus before 0.2.1": (plain.evalplus_lists, "evalplus/old_{}_eval_results.json"),
    "verifiers with id": (plain.verifiers_id, "verifiers/old_{}.jsonl"),
    "nemo_gym": (plain.nemo_gym, "nemo_gym/{}.jsonl"),
    "helm, a folder": (plain.helm, "helm/{}"),
    "opencompass, a folder": (plain.opencompass, "opencompass/{}/"),
    "opencompass, numbered details": (plain.opencompass_numbered, "opencompass/{}/details.json"),
    "lighteval, two kinds of rows": (plain.lighteval_two_kinds, "lighteval/details_two_kinds_{}.parquet"),
    "inspect, .json": (plain.inspect_json, "inspect/shared_{}.json"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_comparison_has_the_counts_of_a_plain_script(shape: str, tmp_path: Path) -> None:
    script, pattern = SHAPES[shape]
    base, rl = (FIXTURES / pattern.format(name) for name in ("base", "rl"))
    if pattern == "opencompass/{}/":  # as the tool leaves it: predictions and results
        base, rl = (_copied(path, tmp_path / path.name) for path in (base, rl))
    assert_same(script(base), script(rl), base, rl)


def _copied(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target)
    (target / "details.json").unlink()
    return target


def test_inspect_archives_count_like_the_json_of_the_same_run() -> None:
    base, rl = (plain.inspect_json(FIXTURES / f"inspect/shared_{name}.json") for name in ("base", "rl"))
    assert_same(base, rl, FIXTURES / "inspect/shared_base.eval", FIXTURES / "inspect/shared_rl.eval")


# BigCodeBench and EvalPlus.


def test_bigcodebench_counts_a_program_that_is_too_slow_as_wrong() -> None:
    path = FIXTURES / "bigcodebench/base_eval_results.json"
    assert "timeout" in path.read_text()
    _, frame = read(path)
    assert verdicts(frame) == {"correct": 2, "wrong": 4}
    assert set(frame["benchmark"]) == {"BigCodeBench"}


def test_old_evalplus_results_have_both_sets_of_tests() -> None:
    path = FIXTURES / "evalplus/old_base_eval_results.json"
    assert verdicts(read(path, Options(filter="base"))[1]) == {"correct": 5, "wrong": 7}
    assert verdicts(read(path)[1]) == {"correct": 2, "wrong": 10}


def test_old_evalplus_results_of_different_lengths_are_refused(tmp_path: Path) -> None:
    results = {"nfiles": 2, "base": [["success", []], ["failed", []]], "plus": [["success", []]]}
    path = tmp_path / "eval_results.json"
    path.write_text(json.dumps({"date": "", "eval": {"HumanEval/0": results}}))
    with pytest.raises(
        OffleashError, match=r"HumanEval/0 are not two lists of the same length: base 2, plus 1\. Evaluate"
    ):
        read(path)


# verifiers and NeMo Gym.


def test_ids_of_old_verifiers_are_not_those_of_problems() -> None:
    rows = plain.rows(FIXTURES / "verifiers/old_base.jsonl")
    assert rows[0]["id"] == rows[1]["id"]
    assert rows[0]["prompt"] != rows[1]["prompt"]
    _, frame = read(FIXTURES / "verifiers/old_base.jsonl")
    contents = frame.group_by("question", "gold", "contents").len()
    assert contents["len"].to_list() == [2] * 5


def test_choices_of_verifiers_are_read_from_info_as_object_or_json(tmp_path: Path) -> None:
    rows = plain.rows(FIXTURES / "verifiers/old_base.jsonl")
    texts = lines(tmp_path / "results.jsonl", [{**row, "info": json.dumps(row["info"])} for row in rows])
    assert read(texts)[1]["contents"].equals(read(FIXTURES / "verifiers/old_base.jsonl")[1]["contents"])


def test_nemo_gym_reads_the_messages_and_not_the_reasoning() -> None:
    _, frame = read(FIXTURES / "nemo_gym/base.jsonl")
    assert frame["text"].str.starts_with("\\boxed{").all()
    assert frame["question"].to_list()[:2] == ["What is 2 + 3?", "Which is larger?"]
    assert frame.filter(pl.col("finish") == "length")["answer"].unique().to_list() == ["1"]
    assert frame.filter(question="Which is larger?")["contents"].n_unique() == 3


def test_nemo_gym_leaves_out_failures_and_does_not_read_a_file_of_them(tmp_path: Path) -> None:
    rows = plain.rows(FIXTURES / "nemo_gym/base.jsonl")
    failed = [{**row, "_ng_failure_class": "timeout"} for row in rows]
    log, frame = read(lines(tmp_path / "rollouts.jsonl", [*rows, failed[0]]))
    assert frame.height == len(rows)
    assert [(note.rows, note.left_out) for note in log.notes] == [(1, True)]
    with pytest.raises(OffleashError, match="no known format"):
        read(lines(tmp_path / "rollouts_failures.jsonl", failed))


# HELM.


@pytest.mark.parametrize("tool", ["helm", "opencompass"])
def test_files_that_are_read_beside_a_log_are_not_called_other_files(tool: str, tmp_path: Path) -> None:
    folders = [shutil.copytree(FIXTURES / tool / run, tmp_path / run) for run in ("base", "rl")]
    for folder in folders:
        (folder / "README.md").write_text("# a run")
    notes = [note["text"] for note in ol.compare(*folders).to_dict()["notes"]]
    skipped = [note.rpartition(": ")[2] for note in notes if "are not logs" in note]
    assert skipped == ["README.md", "README.md"]


def test_helm_takes_the_metric_that_was_asked_for() -> None:
    path = FIXTURES / "helm/base/scenario_state.json"
    log, frame = read(path)
    assert log.verifier == "HELM exact_match"
    assert "also available: quasi_exact_match" in notes_text(log)
    assert frame["benchmark"].unique().to_list() == ["pick:subject=numbers,method=multiple_choice_joint"]
    assert frame["guess"].unique().to_list() == [0.5]
    assert verdicts(read(path, Options(filter="quasi_exact_match"))[1]) == {"correct": 10}
    with pytest.raises(OffleashError, match="no metric 'exact'"):
        read(path, Options(filter="exact"))


def test_helm_without_its_metrics_is_unverified_and_says_where_they_are(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "helm/base/scenario_state.json", tmp_path)
    log, frame = read(tmp_path / "scenario_state.json")
    assert verdicts(frame) == {None: 10}
    assert "per_instance_stats.json" in log.unverified_hint


def test_helm_predictions_alone_are_read_with_their_instances(tmp_path: Path) -> None:
    _, frame = read(FIXTURES / "helm/base/scenario_state.json")
    predictions, instances = _displayed(FIXTURES / "helm/base")
    (tmp_path / "display_predictions.json").write_text(json.dumps(predictions))
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    log, shown = read(tmp_path / "display_predictions.json")
    assert log.format == "helm"
    columns = ["problem", "question", "gold", "contents", "sample", "text", "verdict"]
    order = ["problem", "sample"]
    assert shown.select(columns).sort(order).equals(frame.select(columns).sort(order))
    shutil.copy(FIXTURES / "helm/base/scenario_state.json", tmp_path)
    with pytest.raises(OffleashError, match="no known format"):  # the states say more, and are read instead
        read(tmp_path / "display_predictions.json")


def _displayed(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """display_predictions.json and instances.json, after src/helm/benchmark/presentation/run_display.py."""
    states = json.loads((folder / "scenario_state.json").read_text())["request_states"]
    stats = json.loads((folder / "per_instance_stats.json").read_text())
    means: dict[str, dict[str, float]] = {}
    for entry in stats:
        key = json.dumps([entry["instance_id"], entry.get("perturbation"), entry["train_trial_index"]])
        means.setdefault(key, {}).update({stat["name"]["name"]: stat["mean"] for stat in entry["stats"]})
    predictions = [
        {
            "instance_id": state["instance"]["id"],
            **({"perturbation": state["instance"]["perturbation"]} if "perturbation" in state["instance"] else {}),
            "train_trial_index": state["train_trial_index"],
            "predicted_text": state["result"]["completions"][0]["text"],
            "stats": means[
                json.dumps([state["instance"]["id"], state["instance"].get("perturbation"), state["train_trial_index"]])
            ],
        }
        for state in states
    ]
    return predictions, [state["instance"] for state in states if state["train_trial_index"] == 0]


def test_helm_choices_scored_one_by_one_are_one_sample(tmp_path: Path) -> None:
    references = [{"output": {"text": text}, "tags": tags} for text, tags in (("yes", ["correct"]), ("no", []))]
    instance = {"id": "id0", "input": {"text": "Is it?"}, "references": references}
    states = [
        {"instance": instance, "train_trial_index": 0, "reference_index": index, "result": {"success": True}}
        for index in (0, 1)
    ]
    stats = [{"name": {"name": name}, "mean": mean} for name, mean in (("exact_match", 0.0), ("predicted_index", 1.0))]
    (tmp_path / "scenario_state.json").write_text(json.dumps({"adapter_spec": {}, "request_states": states}, indent=1))
    entry = {"instance_id": "id0", "train_trial_index": 0, "stats": stats}
    (tmp_path / "per_instance_stats.json").write_text(json.dumps([entry]))
    _, frame = read(tmp_path / "scenario_state.json")
    assert frame.select("problem", "answer", "verdict").rows() == [("id0", "no", "wrong")]


# OpenCompass.


def test_opencompass_reads_a_dataset_in_parts(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "opencompass/base", tmp_path / "run")
    folder = tmp_path / "run/predictions/tiny"
    whole = json.loads((folder / "pick.json").read_text())
    expected = read(folder / "pick.json")[1].drop("row")
    (folder / "pick.json").unlink()
    for part, keys in enumerate((list(whole)[:7], list(whole)[7:])):
        rows = {str(place): whole[key] for place, key in enumerate(keys)}
        (folder / f"pick_{part}.json").write_text(json.dumps(rows, indent=4))
    parts = pl.concat([read(folder / f"pick_{part}.json")[1] for part in (0, 1)]).drop("row")
    assert parts.equals(expected)


def test_opencompass_without_details_is_unverified_and_finds_repeated_problems(tmp_path: Path) -> None:
    path = tmp_path / "pick.json"
    shutil.copy(FIXTURES / "opencompass/base/predictions/tiny/pick.json", path)
    log, frame = read(path)
    assert verdicts(frame) == {None: 10}
    assert frame["problem"].n_unique() == 5
    assert "--dump-eval-details" in log.unverified_hint


def test_opencompass_results_are_left_to_the_predictions_beside_them() -> None:
    with pytest.raises(OffleashError, match="no known format"):
        read(FIXTURES / "opencompass/base/results/tiny/pick.json")


def test_opencompass_results_alone_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pick.json"
    shutil.copy(FIXTURES / "opencompass/base/results/tiny/pick.json", path)
    _, frame = read(path)
    assert frame["problem"].n_unique() == 5
    assert verdicts(frame) == {"correct": 4, "wrong": 6}


@pytest.mark.parametrize(("accuracy", "expected"), [(50.0, {"correct": 1, "wrong": 1}), (100.0, {None: 2})])
def test_opencompass_compares_answers_only_where_that_gives_its_accuracy(
    accuracy: float, expected: dict[str | None, int], tmp_path: Path
) -> None:
    said = {"0": ("A", "A"), "1": ("C", "B")}
    details = {
        key: {"prompt": f"Which, {key}?", "origin_prediction": "...", "predictions": answer, "references": gold}
        for key, (answer, gold) in said.items()
    }
    path = tmp_path / "ceval.json"
    path.write_text(json.dumps({"accuracy": accuracy, "details": {"type": "GEN", **details}}, indent=4))
    assert verdicts(read(path)[1]) == expected


def test_opencompass_reads_verdicts_that_are_lists_of_one(tmp_path: Path) -> None:
    prompt = [{"role": "HUMAN", "prompt": "What is 2 + 3?"}]
    detail = {
        "prompt": prompt,
        "origin_prediction": "It is 5.",
        "predictions": "5",
        "references": "5",
        "correct": [True],
    }
    path = tmp_path / "gsm8k.json"
    path.write_text(json.dumps({"accuracy": 100.0, "details": {"0": detail, "1": {**detail, "correct": [False]}}}))
    _, frame = read(path)
    assert frame.select("problem", "question", "text", "gold", "verdict").rows() == [
        ("0", "What is 2 + 3?", "It is 5.", "5", "correct"),
        ("1", "What is 2 + 3?", "It is 5.", "5", "wrong"),
    ]


# lighteval.


def test_lighteval_judges_every_row_by_its_own_metric() -> None:
    path = FIXTURES / "lighteval/details_two_kinds_base.parquet"
    log, frame = read(path)
    assert log.verifier == "lighteval extractive_match"
    assert "3 rows have 1 sample" in notes_text(log)
    assert "3 rows with 4 samples" in notes_text(log)
    backwards = pl.read_parquet(path).reverse()
    assert verdicts(frame) == {"correct": 2, "wrong": 1, None: 12}
    assert len(backwards["predictions"][0]) == 1


def test_lighteval_does_not_depend_on_the_order_of_its_rows(tmp_path: Path) -> None:
    path = FIXTURES / "lighteval/details_two_kinds_base.parquet"
    pl.read_parquet(path).reverse().write_parquet(tmp_path / "details.parquet")
    assert verdicts(read(tmp_path / "details.parquet")[1]) == verdicts(read(path)[1])


def test_lighteval_documents_with_other_choices_or_golds_are_other_problems(tmp_path: Path) -> None:
    docs = [
        {"id": str(place), "task_name": "t", "query": "Which?", "choices": choices, "gold_index": golds}
        for place, (choices, golds) in enumerate(((["1", "2"], [0]), (["3", "2"], [1]), (["3", "2"], [0, 1])))
    ]
    rows = [{"doc": doc, "model_response": {"text": ["2"]}, "metric": {"em": 1.0}} for doc in docs]
    pl.DataFrame(rows).write_parquet(tmp_path / "details.parquet")
    _, frame = read(tmp_path / "details.parquet")
    assert frame["gold"].to_list() == ["1", "2", None]
    assert frame["contents"].n_unique() == 3


# inspect.


def test_inspect_says_why_samples_ended_in_an_error() -> None:
    log, _ = read(FIXTURES / "inspect/shared_base.eval")
    assert "2 samples ended in an error (first: unlucky epoch 1) and were left out: ConnectionError(" in notes_text(log)
    assert "The server closed the connection (2)" in notes_text(log)


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_inspect_problems_that_share_a_sentence_differ_in_choices_or_images(kind: str) -> None:
    _, frame = read(FIXTURES / f"inspect/shared_base.{kind}")
    for text in ("Which is larger?", "What is this?\n"):
        shared = frame.filter(pl.col("question") == text)
        assert shared["problem"].n_unique() == 2
        assert shared["contents"].n_unique() == 2


def test_inspect_summaries_that_lack_an_image_or_an_end_are_read_in_full() -> None:
    columns = ["problem", "question", "gold", "contents", "sample", "verdict"]
    archive = FIXTURES / "inspect/shared_base.eval"
    whole, quick = (
        read(archive, Options(texts=texts))[1].select(columns).sort("problem", "sample") for texts in (True, False)
    )
    assert whole.equals(quick)
    assert whole.filter(problem="long")["question"][0].endswith("What is 2 + 3?")


def test_an_inspect_log_of_errors_alone_names_them(tmp_path: Path) -> None:
    samples = [
        {"id": f"a{place}", "epoch": 1, "input": "q", "target": "t", "error": {"message": message}}
        for place, message in enumerate(["rate limit"] * 3 + ["no memory"] * 2 + ["x", "y", "z"])
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": 2, "status": "error", "eval": {"task": "t"}, "samples": samples}, indent=1))
    message = (
        r"all 8 samples ended in an error: rate limit \(3\); no memory \(2\); x \(1\); and 2 other messages\. Run it"
    )
    with pytest.raises(OffleashError, match=message):
        read(path)


def test_inspect_counts_samples_that_reached_a_limit(tmp_path: Path) -> None:
    sample = {"id": "a", "epoch": 1, "input": "q", "target": "t", "scores": {"judge": {"value": "I"}}}
    samples = [
        {**sample, "limit": {"type": kind, "limit": 5}, "epoch": place} for place, kind in enumerate(("token", "time"))
    ]
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps({"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}, indent=1)
    )
    log, frame = read(path)
    assert "2 samples were stopped by a limit of the run (token 1, time 1); their scores count" in notes_text(log)
    assert frame["finish"].to_list() == ["length", None]


def test_a_comparison_says_which_samples_were_left_out() -> None:
    result = ol.compare(FIXTURES / "inspect/shared_base.eval", FIXTURES / "inspect/shared_rl.eval")
    assert "The server closed the connection" in json.dumps(result.to_dict())


# Damage to the files beside a log; test_log_damage.py damages the logs themselves.

COMPANIONS = {
    "helm/base": ("scenario_state.json", ["per_instance_stats.json", "run_spec.json"]),
    "opencompass/base": ("predictions/tiny/pick.json", ["results/tiny/pick.json"]),
}


@given(st.sampled_from(sorted(COMPANIONS)), st.data())
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_damaged_file_beside_a_log_raises_nothing_else(folder: str, data: st.DataObject) -> None:
    log, names = COMPANIONS[folder]
    name = data.draw(st.sampled_from(names))
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(shutil.copytree(FIXTURES / folder, Path(scratch) / "run"))
        whole = json.loads((run / name).read_text())
        change(whole, data)
        text = json.dumps(whole)
        (run / name).write_text(text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text)
        with suppress(OffleashError):
            read(run / log)


def change(place: Any, data: st.DataObject) -> None:
    """Another value somewhere inside."""
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            place[key] = data.draw(VALUES)
            return
        place = place[key]
