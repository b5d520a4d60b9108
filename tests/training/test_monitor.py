"""SupportMonitor in a real training: the same training as without it, values as `compare` gives them, and refusals."""

import asyncio
import json
import math
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TrainerCallback

import offleash as ol
from offleash.errors import OffleashError
from offleash.lab.pretrain import base_of
from offleash.training import monitor as monitoring
from offleash.training.evaluation import Alarm, Evaluation
from offleash.training.monitor import SupportMonitor
from offleash.training.probe import ProbeSample, probe_calls, trainer_rewards
from tests.training.trl_lab import LONGEST, grpo, rows

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
K, EVERY, STEPS, SIZE = 16, 2, 4, 20
GROUPS = 10  # of 8 samples
RATE = 1e-3  # so high that the model loses problems
START = SimpleNamespace(global_step=0, max_steps=STEPS)
SAME = ("loss", "grad_norm", "reward", "entropy", "completions/mean_length")


@dataclass
class Trained:
    """A training with a monitor, and the log of one without."""

    trainer: Any
    monitor: SupportMonitor
    alarms: list[Alarm]
    without: list[dict[str, float]]
    headlines: list[str]  # of comparisons that were made while it trained

    @property
    def logs(self) -> list[dict[str, float]]:
        return [entry for entry in self.trainer.state.log_history if "loss" in entry]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trl")
    plain = grpo(folder / "plain", STEPS, RATE, GROUPS)
    plain.train()
    trainer, alarms, headlines = grpo(folder / "monitored", STEPS, RATE, GROUPS), list[Alarm](), list[str]()

    def on_alarm(alarm: Alarm) -> None:
        alarms.append(alarm)
        headlines.append(str(ol.compare(str(monitor.out / "base"), str(alarm.folder)).headline))
        raise ConnectionError("the pager is offline")

    monitor = ol.SupportMonitor(trainer, probe=rows("dev", SIZE), k=K, every=EVERY, max_share=None, on_alarm=on_alarm)
    trainer.add_callback(monitor)
    trainer.train()
    without = [entry for entry in plain.state.log_history if "loss" in entry]
    return Trained(trainer, monitor, alarms, without, headlines)


def test_a_training_with_the_monitor_is_the_training_without_it(trained: Trained) -> None:
    with_monitor = [[entry[name] for name in SAME] for entry in trained.logs]
    assert with_monitor == [[entry[name] for name in SAME] for entry in trained.without]
    assert len({entry["entropy"] for entry in trained.logs}) == STEPS  # the model did change


def test_every_evaluation_is_logged_once_with_the_values_of_compare(trained: Trained) -> None:
    logged = {entry["step"]: entry for entry in trained.logs if "support/srr" in entry}
    assert list(logged) == [2, 4]
    for step, entry in logged.items():
        out = trained.monitor.out
        document = ol.compare(str(out / "base"), str(out / f"step-{step:05d}")).to_dict()
        change, curves = document["support"], document["pass_at_k"]
        for name in ("SRR", "NDR", "SDS", "NSCR"):
            if change[name] is None:  # undefined, such as NDR where the model reaches nothing
                assert f"support/{name.lower()}" not in entry
                continue
            ends = [entry[f"support/{name.lower()}_{end}"] for end in ("low", "high")]
            assert entry[f"support/{name.lower()}"] == pytest.approx(change[name], abs=1e-9)
            assert ends == pytest.approx(change["interval"][name], abs=1e-9)
        assert [entry[f"support/{cell}"] for cell in "PESO"] == pytest.approx([change[cell] for cell in "PESO"])
        for k in (1, K):
            ends = [entry[f"probe/pass@{k}_{end}"] for end in ("low", "high")]
            assert entry[f"probe/pass@{k}"] == pytest.approx(curves["after"][str(k)], abs=1e-9)
            assert ends == pytest.approx(curves["after_interval"][str(k)], abs=1e-9)
        assert entry["probe/entropy_answer"] == pytest.approx(document["diversity"]["after"]["entropy"], abs=1e-9)
        for name in ("unread_rate", "failed_rate", "clipped_ratio", "entropy_token", "entropy_token_high"):
            assert f"probe/{name}" in entry
    names = {f"support/{name}{end}" for name in ("srr", "ndr", "sds", "nscr") for end in ("", "_low", "_high")}
    assert any(names <= entry.keys() for entry in logged.values())
    assert {"probe/lost_since_last", "probe/gained_since_last"} <= logged[4].keys()


def test_the_base_has_twice_the_samples_and_none_is_there_twice(trained: Trained) -> None:
    for name, samples in (("base", 2 * K), ("step-00002", K)):
        run = ol.load(trained.monitor.out / name)
        assert run.samples is not None
        frame = run.samples.collect()
        assert frame.group_by("problem").len()["len"].to_list() == [samples] * SIZE
        assert frame.select("problem", "index").is_duplicated().sum() == 0
        assert frame["text"].n_unique() > samples


def test_a_training_that_loses_raises_an_alarm_that_a_second_draw_confirms(trained: Trained) -> None:
    assert trained.alarms
    first = trained.alarms[0]
    assert first.losses_at_least >= 1
    assert first.confirmed_at_least >= 1
    assert trained.headlines[0]  # the folders can be compared while the training runs
    assert first.folder.with_name(first.folder.name.replace("step", "confirmation")).is_dir()


def test_an_evaluation_that_fails_is_logged_and_skipped(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(trained.trainer, "_generate_single_turn", fail)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    trained.monitor.on_step_end(None, SimpleNamespace(global_step=6), control)
    assert trained.monitor.state.spent > sum(done.seconds for done in trained.monitor.state.evaluations)
    assert "step 6 was skipped: RuntimeError: generating failed (RuntimeError: out of memory)" in caplog.text
    assert [evaluation.step for evaluation in trained.monitor.state.evaluations] == [2, 4]


def test_the_trainers_rewards_judge_as_trl_calls_them(trained: Trained) -> None:
    probe = trained.monitor.engine.probe
    solved = ol.load(trained.monitor.out / "base").verdicts
    assert solved is not None
    name, index = solved.filter(verdict="correct").select("problem", "index").collect().row(0)
    samples = ol.load(trained.monitor.out / "base").samples
    assert samples is not None
    text = samples.filter(problem=name, index=index).collect()["text"][0]
    row = probe.names.index(name)
    drawn = [ProbeSample(row, 0, text, (1,), False), ProbeSample(row, 1, "1", (1,), False)]
    assert trainer_rewards(trained.trainer, probe, drawn) == [1.0, 0.0]


class AsyncReward:
    """An object whose call is asynchronous, as TRL takes it."""

    async def __call__(self, completions: list[str], **_: object) -> list[float | None]:
        return [None if text == "?" else float(text == "2") for text in completions]


def test_rewards_may_be_asynchronous_and_none_or_nan_leaves_a_sample_undecided(trained: Trained) -> None:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    def half(completions: list[str], completion_ids: object, **_: object) -> list[float]:
        return [math.nan if text == "?" else 0.5 for text in completions]

    trainer = SimpleNamespace(
        reward_funcs=[AsyncReward(), half], reward_weights=torch.tensor([1.0, 2.0]), async_loop=loop, state=None
    )
    drawn = [ProbeSample(0, index, text, (1,), False) for index, text in enumerate(("2", "1", "?"))]
    assert trainer_rewards(trainer, trained.monitor.engine.probe, drawn) == [2.0, 1.0, None]
    loop.call_soon_threadsafe(loop.stop)


def test_a_reward_model_gives_no_verdicts_and_is_refused(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained.trainer, "reward_funcs", [torch.nn.Linear(1, 1)])
    with pytest.raises(OffleashError, match=r"reward Linear is a model, which gives no verdicts\. Choose a verifier"):
        SupportMonitor(trained.trainer, probe=rows("dev", 3), verifier="rewards")


def test_a_resumed_training_needs_its_base_and_its_probe_set(trained: Trained, tmp_path: Path) -> None:
    begin, out = SimpleNamespace(global_step=2, max_steps=STEPS), trained.monitor.out
    other = SupportMonitor(trained.trainer, probe=rows("dev", 5), k=K, every=EVERY, out=out)
    with pytest.raises(OffleashError, match="resumed with probe"):
        other.on_train_begin(None, begin, None)
    changed = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=8, every=EVERY, out=out)
    with pytest.raises(OffleashError, match="resumed with k 8, but began with 16"):
        changed.on_train_begin(None, begin, None)
    missing = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, every=EVERY, out=tmp_path)
    with pytest.raises(OffleashError, match="has no base samples"):
        missing.on_train_begin(None, begin, None)
    again = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, every=EVERY, out=out)
    with pytest.raises(OffleashError, match=r"holds monitor\.json of another training run"):
        again.on_train_begin(None, START, None)


def test_a_base_that_was_drawn_otherwise_is_refused(trained: Trained, tmp_path: Path) -> None:
    problems = rows("dev", SIZE)
    other = grpo(tmp_path / "warm", 1, temperature=0.5)
    monitor = SupportMonitor(other, probe=problems, k=K, base=trained.monitor.out / "base")
    with pytest.raises(OffleashError, match=r"drawn with temperature 1\.0, but the trainer draws with 0\.5"):
        monitor.on_train_begin(None, START, None)
    more = SupportMonitor(trained.trainer, probe=problems, k=64, base=trained.monitor.out / "base", out=tmp_path / "a")
    with pytest.raises(OffleashError, match="has 32 samples per problem, but k = 64 needs 2k = 128"):
        more.on_train_begin(None, START, None)
    fine = SupportMonitor(trained.trainer, probe=problems, k=K, base=trained.monitor.out / "base", out=tmp_path / "b")
    fine.on_train_begin(None, START, None)
    assert not (tmp_path / "b" / "base").exists()


def test_a_base_by_draw_is_accepted_where_everything_is_equal_and_refused_elsewhere(
    trained: Trained, tmp_path: Path
) -> None:
    problems, model = (
        ol.problem_set("countdown:dev", selection=ol.ProblemSelection(size=4)),
        f"hf:{base_of('countdown')}",
    )
    plain = ol.Decoding(max_tokens=LONGEST)
    ol.draw(problems, model, k=4, out=tmp_path / "base", decoding=plain)
    ol.draw(problems, model, k=4, until=2, out=tmp_path / "stopped", decoding=plain)

    def begin(folder: str, **options: Any) -> None:
        given = {"probe": problems.frame, "base": tmp_path / folder, **options}
        monitor = SupportMonitor(trained.trainer, k=2, out=tmp_path / "support", **given)
        try:
            monitor.on_train_begin(None, START, None)
        finally:
            shutil.rmtree(tmp_path / "support", ignore_errors=True)

    begin("base")
    asked = problems.frame.with_columns(prompt=pl.lit("Please: ") + pl.col("prompt"))
    for folder, options, message in (
        ("stopped", {}, "stops each problem at success 2"),
        ("base", {"verifier": "rewards"}, "was judged by countdown@.*, but this monitor judges with trl-rewards"),
        ("base", {"probe": asked}, "a different prompt for problem"),
    ):
        with pytest.raises(OffleashError, match=message):
            begin(folder, **options)


def test_bare_counts_are_a_base_and_it_is_said(
    trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = trained.monitor.engine.probe.names
    counts = pl.DataFrame({"problem": names, "n": [32] * SIZE, "c": [3] * SIZE})
    monitor = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, base=counts, out=tmp_path)
    monitor.on_train_begin(None, START, None)
    assert "bare counts" in caplog.text
    few = SupportMonitor(trained.trainer, probe=rows("dev", SIZE + 1), k=K, base=counts, out=tmp_path / "x")
    with pytest.raises(OffleashError, match="The base lacks problem"):
        few.on_train_begin(None, START, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be 1 or more"),
        ({"every": 0}, "every must be 1 or more"),
        ({"on_alarm": "shout"}, "on_alarm must be"),
        ({"keep": "last"}, "keep must be"),
        ({"floor": 2}, "floor must be"),
        ({"max_share": 0}, "max_share must be"),
        ({"probe": []}, "needs a column 'prompt'"),
        ({"probe": [{"question": "a"}]}, "needs a column 'prompt'"),
        ({"probe": 3}, "must be problems or a dataset"),
        ({"probe": [{"prompt": "a", "verifier": "maths", "answer": "1"}]}, "maths"),
        ({"probe": [{"prompt": "a", "answer": "?"}], "verifier": "number"}, "cannot be judged"),
        ({"probe": [{"prompt": "a"}], "verifier": "math"}, "there is no answer"),
    ],
)
def test_bad_options_are_refused_before_the_training(trained: Trained, options: dict[str, Any], message: str) -> None:
    given = {"probe": rows("dev", 3), **options}
    with pytest.raises(OffleashError, match=message):
        SupportMonitor(trained.trainer, **given)


def test_a_training_goes_on_where_the_base_cannot_be_drawn(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = SupportMonitor(trained.trainer, probe=rows("dev", 3), k=2, every=1, out=tmp_path)
    monkeypatch.setattr(trained.trainer, "_generate_single_turn", None)
    monitor.on_train_begin(None, START, None)
    monitor.on_step_end(None, SimpleNamespace(global_step=1), None)
    assert "The base model could not be sampled, so this training run is not monitored: RuntimeError" in caplog.text
    assert not monitor.state.evaluations


class OfflineLogger(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """A logger that cannot reach its server."""

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise ConnectionError("wandb is offline")


def test_a_logger_that_is_offline_loses_no_evaluation(tmp_path: Path) -> None:
    trainer = grpo(tmp_path, 1)
    trainer.add_callback(SupportMonitor(trainer, probe=rows("dev", 3), k=2, every=1, max_share=None))
    trainer.add_callback(OfflineLogger())
    with pytest.raises(ConnectionError):  # by the logger, whether there is a monitor or not
        trainer.train()
    (evaluation,) = json.loads((tmp_path / "support" / "monitor.json").read_text())["evaluations"]
    assert "probe/pass@2" in evaluation["metrics"]
    assert (tmp_path / "support" / "step-00001" / "run.json").exists()


def test_another_trl_and_another_trainer_are_refused(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OffleashError, match="works with GRPOTrainer; this SimpleNamespace of TRL"):
        SupportMonitor(SimpleNamespace(), probe=rows("dev", 3))
    monkeypatch.setattr(monitoring.trl, "__version__", "2.0.0")
    with pytest.raises(OffleashError, match=r"TRL 2\.0\.0 is installed"):
        SupportMonitor(trained.trainer, probe=rows("dev", 3))
    monkeypatch.setattr(monitoring.trl, "__version__", "1.15rc1")
    with pytest.raises(OffleashError, match=r"TRL 1\.15rc1 is installed"):
        SupportMonitor(trained.trainer, probe=rows("dev", 3))


def test_a_tokenizer_without_a_pad_token_evaluates(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base_of("countdown"))
    tokenizer.pad_token = None
    monitor = SupportMonitor(grpo(tmp_path, 1, tokenizer=tokenizer), probe=rows("dev", 3), k=2)
    samples = monitor.engine.draw(2, "x")
    assert [(sample.row, sample.index) for sample in samples] == [(row, n) for row in range(3) for n in range(2)]


def test_the_best_checkpoint_above_the_floor_is_copied_and_survives(trained: Trained, tmp_path: Path) -> None:
    keep: dict[str, Any] = {"keep": "best_above_floor", "floor": 0.9, "out": tmp_path / "support"}
    monitor = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, **keep)
    (tmp_path / "support").mkdir()
    args = SimpleNamespace(output_dir=str(tmp_path))
    for step, right, ratio in ((3, 0.2, 1.0), (6, 0.5, 0.8), (9, 0.4, 0.95), (12, 0.3, 1.0)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "step").write_text(str(step))
        monitor.state.evaluations.append(Evaluation(step, "", 1.0, {"probe/pass@1": right}, 0, None, ratio))
        monitor.on_save(args, SimpleNamespace(global_step=step), None)
    assert (tmp_path / "best_above_floor" / "step").read_text() == "9"


def test_nothing_above_the_floor_is_said(trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    monitor = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, keep="best_above_floor", out=tmp_path)
    monitor.on_train_end(None, None, None)
    assert "No evaluated checkpoint kept 95% of what the base reaches" in caplog.text


def test_an_evaluation_beyond_its_share_of_time_is_postponed(trained: Trained, tmp_path: Path) -> None:
    monitor = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, every=EVERY, max_share=0.1, out=tmp_path)
    monitor._started -= 100.0
    monitor._active = True
    for step in (3, 6):
        monitor.state.evaluations.append(Evaluation(step, "", 4.0, {}, 0))
        monitor.state.spent += 4.0
        assert monitor._affordable() is (step == 3)  # 8 of 96 seconds, then 12 of 92
    monitor.on_step_end(None, SimpleNamespace(global_step=6), None)
    assert monitor.state.postponed == 1


def test_stop_ends_the_training_and_warn_does_not(trained: Trained, tmp_path: Path) -> None:
    lost = Evaluation(3, "step-00003", 1.0, {}, 4, 3)
    for on_alarm, stopped in (("warn", False), ("stop", True), (lambda _: "stop", True), (lambda _: None, False)):
        monitor = SupportMonitor(trained.trainer, probe=rows("dev", SIZE), k=K, on_alarm=on_alarm, out=tmp_path)
        control = SimpleNamespace(should_save=False, should_training_stop=False)
        monitor._report(lost, control)
        assert control.should_training_stop is stopped


def test_the_state_file_is_json_that_another_program_can_read(trained: Trained) -> None:
    document = json.loads((trained.monitor.out / "monitor.json").read_text())
    assert [evaluation["step"] for evaluation in document["evaluations"]] == [2, 4]


@given(st.integers(1, 40), st.integers(1, 96), st.integers(1, 64))
def test_calls_have_one_shape_and_draw_every_sample_once(problems: int, samples: int, batch: int) -> None:
    calls = probe_calls(problems, samples, batch)
    assert len({(len(call.rows), call.samples) for call in calls}) == 1
    assert all(len(call.rows) * call.samples <= max(batch, 1) for call in calls)
    drawn = [(row, call.first + n) for call in calls for row in call.wanted for n in range(call.samples)]
    assert sorted(drawn) == [(row, n) for row in range(problems) for n in range(samples)]
