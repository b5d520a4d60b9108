"""Entropy-matched comparison: the temperature that is found is the right one, and what it brings back is counted."""

import json
from collections.abc import Iterator, Sequence
from contextlib import chdir
from io import StringIO
from itertools import permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy.optimize import brentq

from offleash.analyses.sweep.match import EntropyMatch, Pilots, change_by_chance, entropy_matched, match_temperature
from offleash.analyses.sweep.report import match_finding, match_tables
from offleash.errors import OffleashError
from offleash.progress import silent
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import About, Request, Sample, SampleChunk, SamplingParams
from tests.drawing.drawn_world import QUIET, problems

COUNT = 24
ONE = np.zeros(9, np.int64)
LOGITS_PT = np.array([[0.0, 1.0, 3.0], [0.0, 2.0, 2.5], [0.0, 0.5, 4.0]] * 3)


def softmax_entropy(temperature: float) -> np.ndarray:
    chance_PT = np.exp(LOGITS_PT / temperature)
    chance_PT /= chance_PT.sum(axis=1, keepdims=True)
    return np.asarray(-(chance_PT * np.log(chance_PT)).sum(axis=1))


@pytest.mark.parametrize(("target", "start"), [(0.9, 1.0), (0.3, 1.0), (0.5, 0.2), (0.05, 3.0)])
def test_the_temperature_found_is_the_root_of_the_curve(target: float, start: float) -> None:
    found = match_temperature(softmax_entropy, np.full(9, target), start, ONE, tolerance=1e-4)
    exact = brentq(lambda warm: softmax_entropy(warm).mean() - target, 0.05, 5.0)
    assert found.temperature == pytest.approx(exact, rel=1e-3)
    assert abs(found.entropy - target) < 1e-3
    assert found.rising
    assert found.interval.low <= found.temperature <= found.interval.high
    assert len(found.pilots) <= 30


def test_a_model_matches_itself_at_its_own_temperature_with_one_pilot() -> None:
    found = match_temperature(softmax_entropy, softmax_entropy(0.8), 0.8, ONE)
    assert (found.temperature, len(found.pilots), found.error) == (0.8, 1, 0.0)


def test_a_target_that_no_temperature_gives_is_refused_with_what_was_found() -> None:
    with pytest.raises(OffleashError, match=r"No temperature from 0.05 to 5 .* 1.2000 nats: at 5 it stays below that"):
        match_temperature(softmax_entropy, np.full(9, 1.2), 1.0, ONE)
    with pytest.raises(OffleashError, match=r"at 0.05 it is still above"):
        match_temperature(lambda warm: softmax_entropy(warm) + 0.1, np.full(9, 0.05), 1.0, ONE)


def test_entropy_that_falls_with_temperature_somewhere_is_told() -> None:
    def waves(temperature: float) -> np.ndarray:
        return np.full(9, temperature + 0.8 * np.sin(5 * temperature))

    assert not match_temperature(waves, np.full(9, 3.0), 0.5, ONE).rising


def test_problems_that_differ_more_make_the_temperature_less_sure() -> None:
    many = np.zeros(60, np.int64)
    rng = np.random.default_rng(0)

    def width(spread: float) -> float:
        own_P = rng.normal(0, spread, 60)
        found = match_temperature(lambda warm: 0.5 * warm + own_P - own_P.mean(), np.full(60, 0.6), 1.0, many)
        assert found.interval.low < 1.2 < found.interval.high
        assert found.error == pytest.approx(spread / np.sqrt(60), rel=0.3)
        return found.interval.high - found.interval.low

    assert width(0.1) > 3 * width(0.02)


BASE = {"\\boxed{GOLD}": 0.02, "\\boxed{7000}": 0.5, "\\boxed{8000}": 0.3, "\\boxed{9000}": 0.18}


def world(folder: Path, power: float, broken: int) -> tuple[str, str]:
    """A base, and a model after that is its law to a power: at that temperature it is the base again.

    `broken` problems it cannot solve at any temperature.
    """
    base = {f"p{i}": {text.replace("GOLD", str(i)): chance for text, chance in BASE.items()} for i in range(COUNT)}
    after = {}
    for place, (name, law) in enumerate(base.items()):
        sharp = {
            text: chance**power for text, chance in law.items() if place >= broken or text != f"\\boxed{{{place}}}"
        }
        after[name] = {text: weight / sum(sharp.values()) for text, weight in sharp.items()}
    for label, law_of in (("base", base), ("after", after)):
        (folder / f"{label}.json").write_text(json.dumps({"problems": law_of}))
    return "scripted:base.json", "scripted:after.json"


def matched(folder: Path, power: float, broken: int) -> EntropyMatch:
    with chdir(folder):  # seeds derive from a model's name: the same samples wherever this runs
        before, after = (model_of(text) for text in world(folder, power, broken))
        return entropy_matched(
            problems(COUNT), before, after, SamplingParams(), "100", folder / "runs", verifying=QUIET
        )


@pytest.fixture(scope="module")
def sharpened(tmp_path_factory: pytest.TempPathFactory) -> EntropyMatch:
    return matched(tmp_path_factory.mktemp("sharpened"), power=2.0, broken=0)


def test_a_sharpened_model_is_matched_at_the_power_and_its_loss_goes_away(sharpened: EntropyMatch) -> None:
    found = sharpened
    assert found.temperature == pytest.approx(2.0, abs=0.02)
    assert found.entropy["equal"].value < found.entropy["before"].value - 0.1
    assert abs(found.gap.value) < 0.005
    back = found.recovered
    assert back.reached == pytest.approx(found.equal.change.P + found.equal.change.S)
    assert (back.lost, back.lost_matched) == (found.equal.change.S, found.matched.change.S)
    assert back.lost - back.back + back.gone == pytest.approx(back.lost_matched)
    assert back.lost > 10
    assert back.lost_matched < 0.5 * back.lost
    assert back.share.interval.low > 0.3
    assert back.back > 1.5 * back.chance > 0
    assert any("different decoding" in note.text for note in found.matched.notes)


def test_what_a_model_cannot_do_at_any_temperature_does_not_come_back(tmp_path: Path) -> None:
    found = matched(tmp_path, power=1.1, broken=12)
    assert found.recovered.share.interval.high < 0.5
    assert found.recovered.lost_matched > 6


def test_the_match_is_told_in_tables_and_words(sharpened: EntropyMatch) -> None:
    console = Console(width=80, record=True, file=StringIO())
    for part in match_tables(sharpened):
        console.print(part)
    told = console.export_text()
    assert "…" not in told
    assert max(map(len, told.splitlines())) <= 80
    ends = sharpened.matched.change.interval["NSCR"]
    words = ("entropy-matched: temperature 1 against", "base at", f"[{ends.low:.3f}, {ends.high:.3f}]")
    for word in (*words, f"{sharpened.entropy['matched'].value:.4f}"):
        assert word in told
    said = match_finding(sharpened)
    assert f"would move {sharpened.recovered.chance:.1f} each way on average" in said
    assert f"loses {sharpened.recovered.lost:g} at equal decoding" in said
    assert "of the loss" in said


def test_what_a_redraw_alone_moves_is_what_shuffled_samples_move() -> None:
    """Enumerated: 3 + 3 samples of a problem in all orders; from more samples, any 3 against any other 3."""
    for drawn, correct in (((3, 3), (0, 2)), ((3, 3), (1, 2)), ((4, 3), (0, 1)), ((3, 5), (2, 0))):
        pool = [1] * sum(correct) + [0] * (sum(drawn) - sum(correct))
        ways = [(pick[:3], pick[3:]) for pick in permutations(range(len(pool)), 6)]
        moved = [not any(pool[i] for i in one) and any(pool[i] for i in other) for one, other in ways]
        assert change_by_chance(np.array([drawn]), np.array([correct]), 3) == pytest.approx([np.mean(moved)])


def test_damaged_pilots_are_drawn_again_and_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, after = world(tmp_path, 2.0, 0)

    def pilots(told: list[str]) -> Pilots:
        sampler = open_sampler(model_of(after))
        return Pilots(sampler, after, problems(3), SamplingParams(), 0, tmp_path, told.append, "matching")

    told: list[str] = []
    first = pilots(told).entropy(1.5)
    assert (pilots(told).entropy(1.5) == first).all()
    assert len(told) == 1
    pilots(told).file.write_bytes(b"damaged")
    assert (pilots(told).entropy(1.5) == first).all()
    assert len(told) == 2


class Mute:
    """A backend that gives samples and no entropies, or trouble."""

    about, concurrency, batch_size, forwarded = About("endpoint", "mute"), 1, 64, None

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble

    def rendered_prompt(self, prompt: str) -> str | None:
        return prompt

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        for request in requests:
            some = () if self.trouble else (Sample(0, "x", 1, "stop", 0),)
            yield SampleChunk(request, some, self.trouble)

    def forget(self, problem: str) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_backend_without_entropies_or_with_trouble_is_told(tmp_path: Path) -> None:
    def pilots(sampler: Mute, frame: pl.DataFrame) -> Pilots:
        return Pilots(sampler, "endpoint:mute", frame, SamplingParams(), 0, tmp_path, silent, "matching")

    with pytest.raises(OffleashError, match=r"endpoint:mute provides no token entropies.* leave out --match"):
        pilots(Mute(), problems(2)).entropy(1.0)
    with pytest.raises(OffleashError, match="pilot of problem 'p0' could not be drawn: too long"):
        pilots(Mute("too long"), problems(2)).entropy(1.0)
