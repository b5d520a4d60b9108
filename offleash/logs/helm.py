"""HELM (Stanford CRFM): `scenario_state.json` of a run folder, with the verdicts of the files beside it.

`request_states` has one object per request: `instance` (id, input, references with tags), `train_trial_index`, and
`result.completions`. Verdicts are in `per_instance_stats.json`: metrics by instance, perturbation and trial, several
objects each. A folder without the states (as downloaded from HELM's web page) has `display_predictions.json` (text and
metrics) and `instances.json`. Traps:

* There are dozens of metrics, few of them verdicts: the first in METRICS that the run has decides, or --filter.
* With several completions a metric is of the one with the highest probability: which that is the log does not say, so
  they stay unverified.
* Choices scored one by one are one request per choice (`reference_index`): together they are one sample without a text.
* Perturbed copies of an instance (typos, dialects) have its id. They are left out where the original was measured.
* Ids (id0, id1, ...) are positions in the scenario: other subjects of a benchmark have the same ones.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.errors import OffleashError, unknown
from offleash.files.detect import Container, Head
from offleash.files.lines import array_rows, document
from offleash.files.rows import Row, chat_text, fields_of, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import check_maps, converted
from offleash.logs.own_verdicts import VerdictReader

STATES, STATS, PREDICTIONS = "scenario_state.json", "per_instance_stats.json", "display_predictions.json"
# Metrics that are verdicts, the most specific first: an exact match of a chain of thought is always wrong.
# Other files of a run folder, which are read for the verdicts or say the same in another form.
COMPANIONS = (
    STATS,
    PREDICTIONS,
    "display_requests.json",
    "instances.json",
    "run_spec.json",
    "scenario.json",
    "stats.json",
)
METRICS = (
    "chain_of_thought_correctness",
    "math_equiv_chain_of_thought",
    "math_equiv",
    "omni_math_accuracy",
    "final_number_exact_match",
    "exact_match_indicator",
    "code_eval_acc",
    "pass",
    "bigcodebench_p@1",
    "ifeval_strict_accuracy",
    "exact_match",
    "quasi_exact_match",
    "prefix_exact_match",
    "quasi_prefix_exact_match",
    "exact_set_match",
)
HINT = f"The verdicts of HELM are in {STATS} of the run folder: put it next to this file, or judge with --verifier"
DECODING = ("temperature", "num_outputs", "max_tokens", "num_train_trials", "max_train_instances")
Key = tuple[str | None, str | None, str | None]  # instance, perturbation, trial


def recognise(head: Head) -> bool:
    """The states of a run; without them in the folder, its predictions or the metrics alone."""
    columns = set(head.columns)
    if {"adapter_spec", "request_states"} <= columns:
        return True
    if head.container is not Container.JSON or not {"instance_id", "train_trial_index", "stats"} <= columns:
        return False
    preferred_files = (STATES,) if "predicted_text" in columns else (STATES, PREDICTIONS)
    return not any(head.path.with_name(name).exists() for name in preferred_files)


def read(path: Path, head: Head, options: Options) -> Log:
    """The samples of a run; the verdict is the metric of --filter, or the first of METRICS that the run has."""
    check_maps("helm", options, ())
    if options.split_by is not None:
        raise OffleashError(
            f"{path} holds a single HELM run and has no column {options.split_by!r} to split by. Leave out --split-by."
        )
    has_request_states = "request_states" in head.columns
    state = fields_of(head.first if head.container is Container.JSON else document(path)) if has_request_states else {}
    rows = _states(path, state) if has_request_states else list(array_rows(path))
    stats = _stats(path, rows, has_request_states)
    metric = _metric(path, stats, options)
    run = _Run(path, stats, metric, _benchmark(path), {} if has_request_states else _instances(path))
    run.originals = {_id(row) for row in rows if not _perturbation(row)}
    log = Log(
        "helm", f"HELM {metric}" if metric else None, iter(()), facts=_facts(fields_of(state.get("adapter_spec")))
    )
    log.frames = converted(log, rows, path, options, run.state if has_request_states else run.prediction, run.notes)
    log.unverified_hint = "" if metric else HINT
    log.companions = [path.with_name(name) for name in COMPANIONS]
    return log


@dataclass
class _Run:
    """Converts the rows of one run, and counts what it leaves out."""

    path: Path
    stats: Mapping[Key, Mapping[str, object]]
    metric: str | None
    benchmark: str | None
    instances: Mapping[Key, Mapping[str, object]]  # of display_predictions.json, which has only their ids
    originals: set[str | None] = field(default_factory=set)  # instances measured as they are
    chosen: set[Key] = field(default_factory=set)  # choices scored one by one: those that have their sample already
    perturbed: int = 0
    failed: int = 0

    def state(self, row: Row, judge: VerdictReader) -> Iterator[Entry]:
        """The samples of a request."""
        instance, result = row.fields("instance"), row.fields("result")
        if self._is_skipped(row) or row.values.get("request_mode") == "calibration":
            return
        about = self._about(row, instance)
        if row.values.get("reference_index") is not None:
            if _key(row) not in self.chosen:
                self.chosen.add(_key(row))
                predicted_index = self._value(row, "predicted_index")
                yield self._with_verdict(about._replace(answer=_reference(instance, predicted_index)), row, judge)
            return
        completions = result.get("completions")
        if result.get("success") is False or not isinstance(completions, list) or not completions:
            self.failed += 1
            return
        mapping = row.fields("output_mapping")
        for completion in map(fields_of, completions):
            text, tokens = text_of(completion.get("text")), completion.get("tokens")
            finish = fields_of(completion.get("finish_reason")).get("reason")
            entry = about._replace(
                text=text,
                answer=text_of(mapping.get((text or "").strip())),
                guess=1 / len(mapping) if mapping else None,
                tokens=len(tokens) if isinstance(tokens, list) and tokens else None,
                finish=text_of(finish),
            )
            yield self._with_verdict(entry, row, judge) if len(completions) == 1 else entry
        judge.samples_with_shared_verdict += len(completions) if len(completions) > 1 else 0

    def prediction(self, row: Row, judge: VerdictReader) -> Iterator[Entry]:
        """The sample of a row of display_predictions.json, or of per_instance_stats.json, which repeats instances."""
        if self._is_skipped(row) or ("predicted_text" not in row.values and _key(row) in self.chosen):
            return
        self.chosen.add(_key(row))
        instance = self.instances.get((*_key(row)[:2], None), {"id": row.values.get("instance_id")})
        text, answer = row.text("predicted_text"), row.text("mapped_output")
        yield self._with_verdict(self._about(row, instance)._replace(text=text, answer=answer), row, judge)

    def notes(self) -> list[Note]:
        """What decided and what was left out, known only after the last row."""
        notes = []
        names = dict.fromkeys(name for stats in self.stats.values() for name in stats)
        other_metrics = [name for name in METRICS if name in names and name != self.metric]
        if self.metric and other_metrics:
            text = f"the verdict is {self.metric}; also available: {', '.join(other_metrics)} (--filter NAME)."
            notes.append(Note(f"{self.path.name}: {text}"))
        if self.perturbed:
            text = f"{self.perturbed} perturbed copies of measured instances were left out."
            notes.append(Note(f"{self.path.name}: {text}", self.perturbed, left_out=True))
        if self.failed:
            text = f"{self.failed} requests failed and were left out."
            notes.append(Note(f"{self.path.name}: {text}", self.failed, left_out=True))
        return notes

    def _is_skipped(self, row: Row) -> bool:
        is_copy = bool(_perturbation(row)) and _id(row) in self.originals
        self.perturbed += is_copy
        return is_copy

    def _about(self, row: Row, instance: Mapping[str, object]) -> Entry:
        """The problem of a row."""
        question, images = _input(instance.get("input"))
        references = instance.get("references")
        outputs = [_output(reference) for reference in references] if isinstance(references, list) else []
        golds = [text for text, correct in outputs if correct]
        perturbation = fields_of(_perturbation(row)).get("name")
        name = Row(row.path, row.number, instance).problem("id", question=question)
        return Entry(
            problem=f"{name} {text_of(perturbation)}" if perturbation else name,
            question=question,
            gold=golds[0] if len(golds) == 1 else None,
            benchmark=self.benchmark,
            contents=content_hashes(
                choices=[text for text, _ in outputs] if len(outputs) > len(golds) else None,
                images=images,
                tests=golds if len(golds) > 1 else None,  # any of them is accepted: no single gold answer
            ),
            sample=Row(row.path, row.number, row.values).integer("train_trial_index"),
            row=row.number,
        )

    def _value(self, row: Row, metric: str | None) -> object:
        return self.stats.get(_key(row), {}).get(metric or "")

    def _with_verdict(self, entry: Entry, row: Row, judge: VerdictReader) -> Entry:
        if self.metric is None:
            return entry
        verdict, score = judge.mark(self._value(row, self.metric), row.number)
        return entry._replace(verdict=verdict, score=score)


def _states(path: Path, state: Mapping[str, object]) -> list[Row]:
    states = state.get("request_states")
    if not isinstance(states, list):
        raise OffleashError(f"{path}: request_states is {type(states).__name__}, not a list. Copy the file again.")
    return [Row(path, number, fields_of(row)) for number, row in enumerate(states, 1)]


def _stats(path: Path, rows: list[Row], has_request_states: bool) -> dict[Key, dict[str, object]]:
    """All metrics by instance, perturbation and trial; an instance has an object per group of metrics."""
    if has_request_states:
        stats_file = next(
            (candidate for name in (STATS, PREDICTIONS) if (candidate := path.with_name(name)).is_file()), None
        )
        rows = list(array_rows(stats_file)) if stats_file is not None else []
    stats: dict[Key, dict[str, object]] = {}
    for row in rows:
        values = row.values.get("stats")
        stats_by_name = values if isinstance(values, dict) else {}
        for stat in map(fields_of, values if isinstance(values, list) else []):
            name = text_of(fields_of(stat.get("name")).get("name"))
            stats_by_name = {**stats_by_name, name: stat.get("mean")} if name else stats_by_name
        stats.setdefault(_key(row), {}).update(stats_by_name)
    return stats


def _metric(path: Path, stats: Mapping[Key, Mapping[str, object]], options: Options) -> str | None:
    names = dict.fromkeys(name for values in stats.values() for name in values)
    if not names:
        return None
    if options.filter is not None and options.filter not in names:
        raise unknown("metric", options.filter, names)
    metric = options.filter or next((name for name in METRICS if name in names), None)
    if metric is None:
        raise OffleashError(
            f"{path}: none of the metrics {', '.join(list(names)[:8])} is known to be a verdict. "
            "Name the one that decides with --filter NAME."
        )
    return metric


def _instances(path: Path) -> dict[Key, Mapping[str, object]]:
    """The instances of a run folder that has no states."""
    instances_file = path.with_name("instances.json")
    rows = list(array_rows(instances_file)) if instances_file.is_file() else []
    return {(row.text("id"), text_of(row.values.get("perturbation")), None): row.values for row in rows}


def _key(row: Row) -> Key:
    return _id(row), text_of(_perturbation(row)), row.text("train_trial_index")


def _id(row: Row) -> str | None:
    return text_of(row.fields("instance").get("id")) if "instance" in row.values else row.text("instance_id")


def _perturbation(row: Row) -> object:
    return (row.fields("instance") if "instance" in row.values else row.values).get("perturbation")


def _input(value: object) -> tuple[str | None, list[object]]:
    """Text and images of an instance: before 0.2.2 the input was a text, since 0.4 it may hold messages or media."""
    if not isinstance(value, dict):
        return text_of(value), []
    content = fields_of(value.get("multimedia_content")).get("media_objects")
    media = [fields_of(part) for part in content] if isinstance(content, list) else []
    texts = [text for part in media if (text := text_of(part.get("text")))]
    question = text_of(value.get("text")) or chat_text(value.get("messages"), "user") or "\n".join(texts)
    return question or None, [part["location"] for part in media if part.get("location")]


def _output(reference: object) -> tuple[str | None, bool]:
    """Text of a reference, and whether it is a correct answer."""
    output, tags = fields_of(reference).get("output"), fields_of(reference).get("tags")
    text = text_of(output.get("text")) if isinstance(output, dict) else text_of(output)
    return text, isinstance(tags, list) and "correct" in tags


def _reference(instance: Mapping[str, object], index: object) -> str | None:
    references = instance.get("references")
    number = int(index) if isinstance(index, int | float) and index == index and abs(index) < 1e6 else -1
    inside = isinstance(references, list) and 0 <= number < len(references)
    return _output(references[number])[0] if inside and isinstance(references, list) else None


def _benchmark(path: Path) -> str | None:
    """The name of the run without its model: mmlu:subject=anatomy,method=multiple_choice_joint."""
    spec_file = path.with_name("run_spec.json")
    name = text_of(fields_of(document(spec_file)).get("name")) if spec_file.is_file() else None
    return re.sub(r"[:,]model=[^,]*", "", name) if name else None


def _facts(adapter: Mapping[str, object]) -> dict[str, str]:
    """Model and decoding, as the adapter states them."""
    settings = {name: adapter[name] for name in DECODING if adapter.get(name) is not None}
    facts = {
        "model": text_of(adapter.get("model") or adapter.get("model_deployment")),
        "decoding": json.dumps(settings, sort_keys=True, default=str) if settings else None,
    }
    return {name: value for name, value in facts.items() if value}


FORMAT = Format(
    "helm",
    "HELM scenario_state.json and its metrics",
    recognise,
    read,
    (STATES, PREDICTIONS),
    columns=({"adapter_spec", "request_states"}, {"instance_id", "train_trial_index", "stats"}),
)
