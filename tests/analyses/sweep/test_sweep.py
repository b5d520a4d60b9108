"""Sweep: one family of runs by decoding, drawn once; the best decoding is valued on problems that did not choose it."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from offleash.analyses.sweep.best import BestDecoding, best_against_best
from offleash.analyses.sweep.report import finding, show_sweep
from offleash.analyses.sweep.runs import grid, labels, numbers, run_path, stored_settings
from offleash.analyses.sweep.sweep import Sweep, SweepRequest, sweep
from offleash.data.tally import tally_of_counts
from offleash.errors import OffleashError
from offleash.lab.pretrain import base_of
from offleash.loading.problem_set import load_problems
from offleash.progress import Progress, silent
from offleash.samplers.registry import Model, model_of, split_label
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.scripted import entropy, truncate
from offleash.stats.change import support_change
from offleash.stats.redraw import redraw_at
from offleash.stats.support_classes import reach_PRK
from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import QUIET, problems, samples, script

PLAIN = SamplingParams()
SAMPLES = "*/*/samples/*.parquet"


def swept(
    folder: Path, models: list[str], temperatures: tuple[float, ...], k: int = 40, progress: Progress = silent
) -> Sweep:
    chosen = tuple((label, model_of(text)) for label, text in map(split_label, models))
    ways = grid(PLAIN, temperatures, (1.0,))
    return sweep(SweepRequest(problems(5), chosen, ways, str(k)), folder, QUIET, progress)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A base that can do all of five problems, and a model after that is sure of three and has lost one."""
    folder = tmp_path_factory.mktemp("scripts")
    rates = {"base": (0.3, 0.3, 0.3, 0.2, 0.0), "rl": (0.9, 0.9, 0.9, 0.0, 0.0)}
    return [f"scripted:{script(folder / f'{name}.json', some)}" for name, some in rates.items()]


def test_a_grid_goes_through_temperatures_at_each_top_p_in_the_order_given() -> None:
    ways = grid(PLAIN, numbers("1.2,0.6", "--temperature"), numbers("1,0.9", "--top-p"))
    assert [(one.temperature, one.top_p) for one in ways] == [(1.2, 1), (0.6, 1), (1.2, 0.9), (0.6, 0.9)]
    assert numbers("1,1.0,0.5", "-t") == (1.0, 0.5)


def test_what_is_no_number_or_no_decoding_is_refused_with_the_value_found() -> None:
    with pytest.raises(OffleashError, match=r"takes comma-separated numbers.* found 'warm' in --temperature 0.6,warm"):
        numbers("0.6,warm", "--temperature")
    with pytest.raises(OffleashError, match=r"found '' in --top-p 0.9,"):
        numbers("0.9,", "--top-p")
    with pytest.raises(OffleashError, match=r"temperature must be 0 or more; found -1.0"):
        grid(PLAIN, (1.0, -1.0), (1.0,))
    with pytest.raises(OffleashError, match=r"temperature must be 0 or more; found nan"):
        grid(PLAIN, numbers("nan", "--temperature"), (1.0,))
    with pytest.raises(OffleashError, match=r"top_p must be above 0 and at most 1; found 1.5"):
        grid(PLAIN, (1.0,), (1.5,))


def test_two_models_of_the_same_last_name_get_names_that_differ(tmp_path: Path) -> None:
    def named(*texts: str) -> tuple[str, ...]:
        return labels([(label, model_of(text)) for label, text in map(split_label, texts)], tmp_path)

    assert named("hf:/a/base", "hf:/b/rl") == ("base", "rl")
    assert named("hf:/a/one/model", "hf:/a/two/model") == ("one", "two")
    assert named("x=hf:/a/one/model", "hf:/a/two/model") == ("x", "two")
    assert named("hf:/a/base", "hf:/a/base+/loras/new") == ("base", "new")
    assert named("hf:org/m@main", "hf:org/m@v2") == ("m@main", "m@v2")
    assert len(set(named("hf:model", "vllm:model"))) == 2
    with pytest.raises(OffleashError, match=r"Both models are hf:/a/base"):
        named("hf:/a/base", "hf:/a/base")
    with pytest.raises(OffleashError, match=r"belongs to hf:/a/one"):
        named("x=hf:/a/one", "x=hf:/a/two")


@pytest.mark.parametrize("label", [".", "..", ".x", "-x", "", "a b ü", "a/b", "a=b", "a\n"])
def test_a_name_that_is_no_folder_of_its_own_is_refused_with_what_it_may_hold(label: str, tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"letters A to Z, digits and _\.\+-") as refusal:
        split_label(f"{label}=hf:/a")
    assert f"found {label!r}" in str(refusal.value)
    if label:  # none at all is a model's own name
        with pytest.raises(OffleashError, match="letters A to Z"):
            labels([(label, model_of("hf:/a"))], tmp_path)


def test_a_name_is_told_from_what_stands_in_a_models_own_name() -> None:
    assert split_label("_a.b+c-1=hf:/a") == ("_a.b+c-1", "hf:/a")
    assert split_label("endpoint:http://host/v1?x=hf:y") == ("", "endpoint:http://host/v1?x=hf:y")
    assert split_label("base=hff:/a") == ("base", "hff:/a")
    assert split_label("https://host/v1?x=y") == ("", "https://host/v1?x=y")


def test_a_model_keeps_the_name_under_which_it_stands_in_the_folder(tmp_path: Path, scripts: list[str]) -> None:
    swept(tmp_path, [f"mine={scripts[0]}"], (1.0,))
    assert labels([("", model_of(scripts[0]))], tmp_path) == ("mine",)
    other = Model("scripted", str(tmp_path / "elsewhere" / "mine.json"))
    assert labels([("", other)], tmp_path) == ("elsewhere",)
    with pytest.raises(OffleashError, match="belongs to scripted:"):
        labels([("mine", other)], tmp_path)


def five_errors(variance_P: list[float], k: int) -> float:
    """Five standard errors of a mean over problems of means over k samples; samples differ from place to place."""
    return 5 * float(np.sqrt(np.sum(variance_P) / k)) / len(variance_P)


def test_points_show_what_the_tempered_law_of_the_script_gives(tmp_path: Path, scripts: list[str]) -> None:
    k, temperatures = 1_000, (0.5, 2.0)
    found = swept(tmp_path, scripts[:1], temperatures, k)
    laws = json.loads(Path(scripts[0].partition(":")[2]).read_text())["problems"]
    for point, temperature in zip(found.points, temperatures, strict=True):
        way = SamplingParams(temperature=temperature)
        law_P = [truncate(np.array(list(law.values())), way) for law in laws.values()]
        off = five_errors([law[0] * (1 - law[0]) for law in law_P], k)
        assert point.pass_1.value == pytest.approx(np.mean([law[0] for law in law_P]), abs=off)
        # one token, but two in "no idea": the mean over samples of the entropy of a token
        exact = np.mean([entropy(law) * (1 - law[2] / 2) for law in law_P])
        off = five_errors([(entropy(law) / 2) ** 2 * law[2] * (1 - law[2]) for law in law_P], k)
        assert point.token_entropy is not None
        assert point.answer_entropy is not None
        assert point.token_entropy.value == pytest.approx(exact, abs=off)
        known_P = [law[law > 0] for law in law_P]
        off = five_errors([float(np.sum(law * np.log(law) ** 2)) - entropy(law) ** 2 for law in known_P], k)
        exact, bias = np.mean([entropy(law) for law in law_P]), 1 / k  # counts of three answers: half of two a sample
        assert point.answer_entropy.value == pytest.approx(exact, abs=off + bias)
        assert off < 0.06
        assert point.reached == 4
        assert point.pass_1.interval.low < point.pass_1.value < point.pass_1.interval.high
    assert found.changes == ()
    assert found.best is None


def test_a_sweep_goes_on_where_it_was_and_a_larger_grid_adds_folders(tmp_path: Path, scripts: list[str]) -> None:
    told: list[str] = []
    first = swept(tmp_path, scripts, (1.0,), progress=told.append)
    assert first.new == 2 * 5 * 40
    kept = {file: file.read_bytes() for file in tmp_path.glob(SAMPLES)}
    assert swept(tmp_path, scripts, (1.0,)).new == 0
    larger = swept(tmp_path, scripts, (0.5, 1.0), progress=told.append)
    assert larger.new == 2 * 5 * 40
    assert {file.name for file in (tmp_path / "base").iterdir()} == {"t1-p1", "t0.5-p1"}
    assert all(file.read_bytes() == content for file, content in kept.items())
    assert repr(larger.points[2:]) == repr(first.points)  # so few problems have no interval: NaN, which equals nothing
    assert any(text.startswith("3 of 4: rl at temperature 0.5") for text in told)
    assert swept(tmp_path, scripts, (1.0,), k=60).new == 2 * 5 * 20


def test_swapping_the_models_swaps_lost_and_found(tmp_path: Path, scripts: list[str]) -> None:
    # so many samples that the base misses what it can do once in five thousand million times
    one, other = (swept(tmp_path, some, (0.7, 1.0), k=100) for some in (scripts, scripts[::-1]))
    assert other.new == 0
    for change, turned in zip(one.changes, other.changes, strict=True):
        assert (change.P, change.E, change.S, change.O) == (turned.P, turned.S, turned.E, turned.O)
        assert change.value["NSCR"] == -turned.value["NSCR"]
    assert one.best is not None
    assert other.best is not None
    assert pytest.approx(other.best.fitted.E) == one.best.fitted.S
    assert (one.best.in_sample.E, one.best.in_sample.S) == (other.best.in_sample.S, other.best.in_sample.E)
    assert one.changes[1].S == 1


def test_another_model_or_seed_in_the_folder_is_refused_before_anything_is_drawn(
    tmp_path: Path, scripts: list[str]
) -> None:
    swept(tmp_path, scripts[:1], (1.0,))
    asked = SweepRequest(problems(5), (("", model_of(scripts[0])),), grid(PLAIN, (0.5, 1.0), (1.0,)), "40", seed=7)
    with pytest.raises(OffleashError, match=r"seed: stored 0, requested 7"):
        sweep(asked, tmp_path, QUIET)
    assert not run_path(tmp_path, "base", SamplingParams(temperature=0.5)).exists()
    with pytest.raises(OffleashError, match=r"is a run\. A sweep is a folder of runs"):
        swept(tmp_path / "base" / "t1-p1", scripts[:1], (1.0,))
    with pytest.raises(OffleashError, match="name two models"):
        SweepRequest(problems(5), asked.models, asked.decodings, "40", match=True)


def shown(found: Sweep) -> str:
    console = Console(width=80, record=True, file=StringIO())
    show_sweep(console, found)
    return console.export_text()


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory, scripts: list[str]) -> Sweep:
    """A sweep in which one model has a long name."""
    names = ("a-rather-long-name-of-a-checkpoint-000120", "rl")
    models = [f"{name}={text}" for name, text in zip(names, scripts, strict=True)]
    return swept(tmp_path_factory.mktemp("named"), models, (0.65, 1.0, 1.25), k=16)


def test_at_80_columns_every_temperature_value_and_interval_can_be_read(named: Sweep) -> None:
    found = named
    lines = [line.split() for line in shown(found).splitlines()]
    assert max(map(len, shown(found).splitlines())) <= 80
    assert shown(found).count("unchanged ") == len(found.changes) + 2  # beside every SRR, also of the best decodings
    assert "…" not in shown(found)
    for point in found.points:
        ends = point.pass_k.interval
        start = [f"{point.decoding.temperature:g}", "1"]
        told = [f"{point.pass_k.value:.3f}", f"[{ends.low:.3f},", f"{ends.high:.3f}]"]
        assert any(line[:2] == start and line[4:7] == told for line in lines)
    for change in found.changes:
        ends = change.interval["NSCR"]
        assert f"[{ends.low:.3f}, {ends.high:.3f}]" in shown(found)
    assert found.best is not None
    assert "need not be best on the other" in finding(found)
    assert f"NSCR {found.best.in_sample.value['NSCR']:+.3f}." in finding(found)


def test_a_decoding_at_which_nobody_reaches_anything_has_no_place_in_the_range(named: Sweep) -> None:
    for values in permutations((-0.25, 0.5, float("nan"))):
        changes = [
            replace(change, value={**change.value, "NSCR": value})
            for change, value in zip(named.changes, values, strict=True)
        ]
        said = finding(replace(named, changes=tuple(changes)))
        assert "ranges from -0.250 [" in said
        assert " to 0.500 [" in said


def lab_words(folder: Path, problems: Path, temperatures: str, *more: str) -> list[str]:
    words = ["sweep", str(problems), f"base=hf:{base_of('countdown')}", "--temperature", temperatures, "-k", "64"]
    return [*words, "--max-tokens", "12", "--jobs", "1", "--no-cache", "-o", str(folder), "--json", *more]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of the lab's base, and its problems, in one folder."""
    folder = tmp_path_factory.mktemp("lab")
    frame = load_problems("countdown", size=4).frame.select("problem", "question", "prompt", "verifier", "details")
    frame.write_ndjson(folder / "problems.jsonl")
    done = offleash(*lab_words(folder / "runs", folder / "problems.jsonl", "0.8,1"))
    assert done.code == 0, done.err
    return folder


@pytest.mark.slow
def test_killed_in_the_middle_a_sweep_ends_with_the_samples_it_would_have_had(lab: Path, tmp_path: Path) -> None:
    asked = lab_words(tmp_path, lab / "problems.jsonl", "0.8,1")
    code = "from offleash.cli.main import main; main()"
    running = subprocess.Popen([sys.executable, "-c", code, *asked], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    second, deadline = tmp_path / "base" / "t1-p1", time.monotonic() + 60
    while not second.exists() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL, "it was killed before its end"
    held = len(list((second / "samples").glob("*.parquet")))
    done = offleash(*asked)
    assert done.code == 0, done.err
    assert done.json["new"] == (0 if held else 4 * 64)
    for name in ("t0.8-p1", "t1-p1"):
        assert samples(tmp_path / "base" / name).equals(samples(lab / "runs" / "base" / name))


def test_runs_of_another_precision_are_not_taken_for_those_asked_for(lab: Path) -> None:
    asked = lab_words(lab / "runs", lab / "problems.jsonl", "0.5,1")
    refused(offleash(*asked, "--set", "dtype=bfloat16"), "dtype: stored float32, requested bfloat16")
    refused(offleash(*asked, "--raw"), "raw: stored false, requested true")
    assert not run_path(lab / "runs", "base", SamplingParams(temperature=0.5)).exists()
    again = offleash(*lab_words(lab / "runs", lab / "problems.jsonl", "1", "--set", "dtype=float32"))
    assert again.json["new"] == 0, again.err


def test_what_a_precision_comes_to_is_told_without_the_model(tmp_path: Path) -> None:
    assert stored_settings(model_of("hf:/a", {"dtype": "float16", "rows": "8"})) == {"dtype": "float16"}
    assert stored_settings(model_of("hf:/a", {"device": "cpu"})) == {"dtype": "float32"}
    assert stored_settings(model_of("hf:/a", {"device": "cuda"})) is None
    (tmp_path / "config.json").write_text(json.dumps({"dtype": "bfloat16"}))
    assert stored_settings(model_of(f"hf:{tmp_path}", {"device": "cuda"})) == {"dtype": "bfloat16"}
    settings = {"dtype": "half", "python": "x", "tensor_parallel_size": "2"}
    assert stored_settings(model_of("vllm:/a", settings)) == {"dtype": "half"}


def best(before_PG: np.ndarray, after_PG: np.ndarray, seed: int = 0, replicates: int = 200) -> BestDecoding:
    ways = grid(PLAIN, tuple(0.5 + 0.1 * number for number in range(before_PG.shape[1])), (1.0,))
    found = best_against_best(before_PG, after_PG, ways, np.zeros(len(before_PG), np.int64), seed, replicates)
    assert found is not None
    return found


def test_where_one_decoding_is_best_everywhere_the_cross_fitted_table_is_the_plain_one() -> None:
    rng = np.random.default_rng(0)
    before_P, after_P = (rng.random(40) < 0.8, rng.random(40) < 0.5)
    worse = np.zeros(40)
    found = best(np.stack([worse, before_P], 1).astype(float), np.stack([after_P, worse], 1).astype(float))
    assert (found.decoding[0].temperature, found.decoding[1].temperature) == (0.6, 0.5)
    assert found.chosen == (1.0, 1.0)
    cells = found.fitted
    assert pytest.approx((before_P & after_P).sum()) == cells.P == found.in_sample.P
    assert pytest.approx((~before_P & after_P).sum()) == cells.E
    assert pytest.approx((before_P & ~after_P).sum()) == cells.S == found.in_sample.S
    assert pytest.approx(40) == cells.P + cells.E + cells.S + cells.O
    assert found.interval["NSCR"].low < cells.value["NSCR"] < found.interval["NSCR"].high


def test_the_best_decodings_have_the_table_of_an_unchanged_model_beside_them() -> None:
    """The same problems under one decoding that is best everywhere: the redraw value is that of the plain pair."""
    pair = tally_of_counts(16, [[3, 0], [1, 1], [0, 2], [16, 16]] * 5)
    reach_PR = reach_PRK(pair, np.array([16]))[:, :, 0]
    worse_P, ways = np.zeros(len(pair)), grid(PLAIN, (0.5, 0.6), (1.0,))

    def redraw_of(rows_P: np.ndarray, before: int, after: int) -> np.ndarray:
        assert (before, after) == (0, 1)
        return redraw_at(pair.drawn_PR[rows_P], pair.correct_PR[rows_P], np.array([16]))[:, 0]

    sides = np.stack([reach_PR[:, 0], worse_P], axis=1), np.stack([worse_P, reach_PR[:, 1]], axis=1)
    found = best_against_best(*sides, ways, np.zeros(len(pair), int), replicates=20, redraw_of=redraw_of)
    plain = support_change(pair, "before", "after", replicates=20)
    assert found is not None
    assert plain.redraw is not None
    for counts in (found.fitted, found.in_sample):
        assert counts.redraw is not None
        assert counts.redraw["SRR"] == pytest.approx(plain.redraw.value["SRR"])


def test_the_best_of_many_equal_decodings_is_not_flattered() -> None:
    """Ten decodings that all reach half of the problems: the largest of ten looks better, the cross-fitted one not."""
    rng = np.random.default_rng(1)
    fitted, flattered = [], []
    for seed in range(20):
        before_PG = (rng.random((30, 10)) < 0.5).astype(float)
        found = best(before_PG, before_PG, seed, replicates=20)
        fitted.append(found.fitted.value["before"])
        flattered.append(found.in_sample.value["before"])
        assert flattered[-1] == pytest.approx(before_PG.mean(axis=0).max())
    assert np.mean(flattered) > 0.6
    assert np.mean(fitted) == pytest.approx(0.5, abs=0.05)


def test_one_decoding_or_one_problem_has_no_best() -> None:
    one, ways = np.ones((4, 1)), grid(PLAIN, (1.0,), (1.0,))
    assert best_against_best(one, one, ways, np.zeros(4, np.int64)) is None
