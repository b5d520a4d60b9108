"""SupportMonitor: what a training run with TRL does to the problems its model can solve, measured while it trains.

    trainer = GRPOTrainer(...)
    trainer.add_callback(ol.SupportMonitor(trainer, probe="probe.jsonl", k=64, every=50))

Every `every` steps it draws k samples per problem of the probe set (probe.py), writes them as a run folder, compares
them with the base's, and hands the values to the trainer's loggers. Losses beyond chance, corrected over all planned
evaluations and confirmed by a second draw, raise an alarm. Training is the same with and without the monitor: random
states are restored, and an evaluation that fails is logged and skipped.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from packaging.version import Version

from offleash.comparing.compare import Comparison, compare
from offleash.comparing.question import Question
from offleash.data.run import Run
from offleash.data.run_folder import is_run, open_run
from offleash.drawing.draw import refuse_greedy_copies
from offleash.errors import OffleashError
from offleash.plugins import is_reference
from offleash.training.evaluation import (
    Alarm,
    Evaluation,
    MonitorState,
    confirmed_losses,
    first_losses,
    metrics_of,
    read_state,
    token_entropy_values,
    write_state,
)
from offleash.training.given_base import accepted_base
from offleash.training.probe import (
    ProbeEngine,
    ProbeJudge,
    ProbeSample,
    read_probe,
    refuse_reward_models,
    restored_randomness,
    write_draw,
)
from offleash.training.rewards import IN_TRAINING, log
from offleash.verifying.cases import problem_cases, refuse_unreadable
from offleash.verifying.verify import extraction_of, open_judge, verify_options

try:
    import trl as trl
    from transformers import TrainerCallback
except ImportError:
    raise OffleashError("SupportMonitor needs TRL, which is not installed. Run pip install 'offleash[trl]'.") from None

SUPPORTED = ((1, 16), (2, 0))  # of TRL, whose private methods are called: from, and below
NEEDED = ("_generate_single_turn", "_tokenize_prompts", "_get_per_token_logps_and_entropies", "_metrics")
ENTROPY_FALL = 0.10  # share of the base's answer entropy whose loss is worth a line in the log
BASE, STATE, BEST = "base", "monitor.json", "best_above_floor"
Result = TypeVar("Result")


class SupportMonitor(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Measures, during a training run with TRL, which problems of a probe set the model still reaches.

    Args:
        trainer: the GRPOTrainer that it is a callback of.
        probe: problems that are not trained on: a name or file of problems, or a dataset with `prompt` and `answer`.
        k: samples per problem and evaluation; of the base twice as many are drawn.
        every: steps between two evaluations.
        base: a run folder of the base on the same problems, prompts, decoding and length limit, with at least 2k
            samples, or bare counts (columns problem, n, c), of which only the problems can be checked. None: drawn
            before the first step.
        verifier: a name such as `math`, a function of your own as FILE.py:NAME, or "rewards": the trainer's own reward
            functions, whose weighted sum means correct from `threshold` on. None: each problem's own verifier, and the
            rewards where the problems name none.
        on_alarm: "warn", "stop" (the training run), or a function of an `Alarm`, called on the main process; where it
            returns "stop", the training run stops.
        keep: "best_above_floor": save at every evaluation, and copy the checkpoint with the best pass@1 among those
            that kept `floor` of what the base reaches to the folder best_above_floor.
        floor: least SRR, divided by the SRR that the base itself shows when it is drawn again.
        max_share: of training time that evaluations may take; one that would exceed it is postponed. None: no limit.
        threshold: from which reward on a sample is correct, for `rewards` and for a function of your own.
        out: folder of the run folders; None: `support` in the trainer's output folder.
        columns: which column of a probe dataset is which, where the usual names do not say.
        seed: of the draws.

    >>> monitor = ol.SupportMonitor(trainer, probe="countdown:dev", k=64, every=50)  # doctest: +SKIP
    >>> trainer.add_callback(monitor)  # doctest: +SKIP
    """

    def __init__(
        self,
        trainer: Any,
        probe: object,
        k: int = 64,
        every: int = 50,
        base: object = None,
        verifier: str | None = None,
        on_alarm: str | Callable[[Alarm], object] = "warn",
        keep: str | None = None,
        floor: float = 0.95,
        max_share: float | None = 0.10,
        *,
        threshold: float = 1.0,
        out: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        _refuse_trainer(trainer)
        _refuse_options(k, every, on_alarm, keep, floor, max_share)
        self.trainer, self.k, self.every, self._on_alarm = trainer, k, every, on_alarm
        self._keep, self._floor, self._max_share = keep, floor, max_share
        self.out = Path(out) if out is not None else Path(trainer.args.output_dir) / "support"
        self._rewards = verifier == "rewards"
        read = read_probe(probe, _is_chat(trainer), needs_gold=not self._rewards, columns=columns)
        if verifier is None and read.problems["verifier"].is_null().any():
            self._rewards = True
        if self._rewards:
            refuse_reward_models(trainer)
        self._verifier = None if self._rewards else verifier
        self.engine = ProbeEngine(trainer, read, seed)
        refuse_greedy_copies(self.engine.decoding, k)
        self._threshold = threshold
        self._given_base = base
        self._stack = ExitStack()
        self._judging: ProbeJudge | None = None
        self._base: Run | None = None  # on the main process only
        self.state = MonitorState(self._settings())
        self._active = False
        self._started = time.monotonic()
        if self._main:
            self._judge()  # a problem that no verifier can judge is refused now, not after hours

    # What the trainer calls. Only settings are refused, before the first step; later nothing raises.

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Draw the base, or take up what an earlier part of the training has stored."""
        resumed = state.global_step > 0
        planned = max(1, state.max_steps // self.every)
        self.state = self._on_main(lambda: self._stored_state(state.global_step) if resumed else self._new_state())
        if self.state.planned not in (0, planned) and self._main:
            log.warning(
                "The training run began with %d planned evaluations but is resumed with %d: the chance of a false "
                "alarm is 5%% in each part.", self.state.planned, planned,
            )  # fmt: skip
        self.state.planned = planned
        if self._given_base is not None:
            self._on_main(self._open_base)
        try:
            if not resumed:
                self._measure_base()
        except OffleashError:
            raise
        except Exception as error:
            log.error(
                "The base model could not be sampled, so this training run is not monitored: %s: %s",
                type(error).__name__,
                error,
            )
            return
        if self._main and self._base is None:
            self._base = open_run(self.out / BASE, BASE)
        self._active = True
        self._started = time.monotonic()
        self._write_state()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate where an evaluation is due; whatever goes wrong is logged, and the training goes on."""
        step = state.global_step
        if not self._active or step % self.every or step == 0:
            return
        started = time.monotonic()
        try:
            if not self._affordable():
                self.state.postponed += 1
                return
            with restored_randomness():  # reward functions and comparisons may draw random numbers too
                done = self._evaluate(step)
        except Exception as error:
            self.state.spent += time.monotonic() - started
            log.error("The evaluation at step %d was skipped: %s: %s", step, type(error).__name__, error)
            return
        done.seconds = time.monotonic() - started
        self.state.spent += done.seconds
        self.state.evaluations.append(done)
        self._report(done, control)
        try:
            self._write_state()
        except OSError as error:
            log.error("%s could not be written: %s", self.out / STATE, error)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Copy a checkpoint that is the best above the floor so far."""
        newest = self.state.evaluations[-1] if self.state.evaluations else None
        if self._keep is None or not self._main or newest is None or newest.step != state.global_step:
            return
        right = newest.metrics["probe/pass@1"]
        if newest.net_ratio is None or newest.net_ratio < self._floor or right <= self.state.best_pass_1:
            return
        try:
            source, target = Path(args.output_dir) / f"checkpoint-{newest.step}", Path(args.output_dir) / BEST
            temporary = target.with_name(BEST + ".copying")
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(source, temporary)
            shutil.rmtree(target, ignore_errors=True)
            temporary.rename(target)
            self.state.best_step, self.state.best_pass_1 = newest.step, right
            self._write_state()
        except (OSError, shutil.Error) as error:
            log.error("The checkpoint for step %d could not be copied to %s: %s", newest.step, BEST, error)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the verifier's workers, and say where nothing was kept."""
        if self._keep is not None and self._main and self.state.best_step is None:
            log.warning("No evaluated checkpoint kept %.0f%% of what the base reaches: there is no %s.",
                        100 * self._floor, BEST)  # fmt: skip
        if self.state.postponed and self._main:
            log.warning("%d evaluations were postponed, to stay within %.0f%% of the training time.",
                        self.state.postponed, 100 * (self._max_share or 0))  # fmt: skip
        self._stack.close()
        self._judging = None

    # The base.

    def _measure_base(self) -> None:
        """Draw the base's samples, or only as many as its token entropy needs where its counts are given."""
        with restored_randomness():
            samples = self.engine.draw(2 * self.k if self._given_base is None else 1, BASE)
            entropy_P = self.engine.token_entropy(samples)
            self.state.base_entropy = float(entropy_P.mean()) if len(entropy_P) else None
            if self._given_base is None:
                self._on_main(lambda: self._write(BASE, samples))

    def _open_base(self) -> None:
        self._base = replace(accepted_base(self._given_base, self.engine, self._judge().name, self.k), name=BASE)

    # An evaluation.

    def _evaluate(self, step: int) -> Evaluation:
        """Draw, judge and compare; a loss beyond chance is drawn again."""
        name, planned = f"step-{step:05d}", self.state.planned
        samples = self.engine.draw(self.k, step)
        entropy_P = self.engine.token_entropy(samples)
        done = self._on_main(lambda: self._measure(step, name, samples))
        done.metrics |= token_entropy_values(entropy_P)
        if done.losses_at_least:
            try:
                samples = self.engine.draw(self.k, step, "again")
                done.confirmed_at_least = self._on_main(lambda: self._confirmed(f"confirmation-{step:05d}", samples))
            except Exception as error:
                log.error(
                    "Step %d: at least %d lost problems of %d planned evaluations could not be confirmed: %s: %s",
                    step, done.losses_at_least, planned, type(error).__name__, error,
                )  # fmt: skip
        return done

    def _measure(self, step: int, name: str, samples: list[ProbeSample]) -> Evaluation:
        comparison = self._compared(name, samples)
        counts, retest = comparison.tally, comparison.evidence.retest
        losses = first_losses(counts.drawn_PR, counts.correct_PR, self.state.planned)
        done = Evaluation(step, name, 0.0, {**metrics_of(comparison, self.k), **self._since_last(name)}, losses)
        done.net_ratio = retest.net_ratio if retest is not None and retest.k == self.k else None
        return done

    def _confirmed(self, name: str, samples: list[ProbeSample]) -> int:
        counts = self._compared(name, samples).tally
        return confirmed_losses(counts.drawn_PR, counts.correct_PR)

    def _report(self, done: Evaluation, control: Any) -> None:
        """Hand the values to the trainer's next log, and act on an alarm."""
        for name, value in done.metrics.items():
            self.trainer._metrics["train"][name] = [value]  # TRL averages what it finds: one value, the latest
        control.should_save = control.should_save or self._keep is not None
        if self._main:
            self._note_entropies(done)
        if not done.alarm:
            return
        alarm = Alarm(
            done.step, done.losses_at_least, done.confirmed_at_least or 0, self.out / done.folder, dict(done.metrics)
        )
        if self._main:
            log.warning(
                "Step %d: probe problems lost: at least %d, more than chance gives in %d evaluations; a "
                "second draw confirms at least %d. See: offleash compare %s %s",
                alarm.step, alarm.losses_at_least, self.state.planned, alarm.confirmed_at_least,
                self._given_base if isinstance(self._given_base, str | Path) else self.out / BASE, alarm.folder,
            )  # fmt: skip
        stop = self._on_alarm == "stop"
        if callable(self._on_alarm):
            on_alarm = self._on_alarm
            try:
                stop = self._on_main(lambda: on_alarm(alarm) == "stop")
            except Exception as error:
                log.error("Step %d: on_alarm raised %s: %s", alarm.step, type(error).__name__, error)
        control.should_training_stop = control.should_training_stop or stop

    def _note_entropies(self, done: Evaluation) -> None:
        """A line of information: the early-warning study (research/early_warning) found no signal in time."""
        answer, base = done.metrics.get("probe/entropy_answer"), done.metrics.get("probe/entropy_answer_base")
        token = done.metrics.get("probe/entropy_token")
        if answer is None or base is None or token is None or self.state.base_entropy is None:
            return
        if answer < (1 - ENTROPY_FALL) * base and token >= self.state.base_entropy:
            log.info(
                "Step %d: answer entropy fell from %.2f to %.2f nats, token entropy did not. This is for "
                "information, not a warning: in our study no such signal announced a loss in time.",
                done.step, base, answer,
            )  # fmt: skip

    def _since_last(self, name: str) -> dict[str, float]:
        """Problems that the evaluation before reached and this one did not, and the reverse."""
        if not self.state.evaluations:
            return {}
        before, now = (_reached(open_run(self.out / folder)) for folder in (self.state.evaluations[-1].folder, name))
        return {"probe/lost_since_last": float(len(before - now)), "probe/gained_since_last": float(len(now - before))}

    def _compared(self, name: str, samples: list[ProbeSample]) -> Comparison:
        """Write and judge a draw, and compare it with the base."""
        assert self._base is not None, "it is drawn or read before the first step"
        self._write(name, samples)
        return compare(self._base, open_run(self.out / name, name), Question(at=self.k))

    def _write(self, name: str, samples: list[ProbeSample]) -> None:
        write_draw(self.out / name, name, self.engine, samples, f"{self.out}/{name}", self._judge())

    def _affordable(self) -> bool:
        """Whether an evaluation fits into the share of training time; the main process decides for all."""
        state = self.state
        training = state.seconds + time.monotonic() - self._started - state.spent
        # before the first evaluation its cost is not known, so that one is held
        next_cost = state.evaluations[-1].seconds if state.evaluations else 0.0
        fits = self._max_share is None or state.spent + next_cost <= self._max_share * training
        return self._on_main(lambda: fits or not state.spent)

    # The judge, the state file, and several ranks.

    def _judge(self) -> ProbeJudge:
        if self._judging is None:
            if self._rewards:
                self._judging = ProbeJudge(None, {}, self._threshold)
            else:
                own = self._verifier is not None and is_reference(self._verifier)
                judging = replace(IN_TRAINING, threshold=self._threshold) if own else IN_TRAINING
                options = verify_options(self._verifier, judging)
                extraction = extraction_of(self.engine.origin(BASE), options.extraction)
                problems = self.engine.probe.problems
                cases = problem_cases(problems, self._verifier, extraction, "the probe set")
                judge = self._stack.enter_context(open_judge(options))
                refuse_unreadable(judge, cases, "the probe set")
                self._judging = ProbeJudge(judge, cases, self._threshold)
        return self._judging

    def _settings(self) -> dict[str, object]:
        """What must be the same when a training run is resumed."""
        decoding = {name: value for name, value in asdict(self.engine.decoding).items() if name != "stop"}
        verifier = "rewards" if self._rewards else self._verifier or "each problem's own"
        given = self._given_base
        if isinstance(given, pl.DataFrame):
            given = "counts " + blake2b(given.write_json().encode(), digest_size=6).hexdigest()
        return {
            "probe": self.engine.probe.hash,
            "k": self.k,
            "every": self.every,
            "verifier": verifier,
            "threshold": self._threshold,
            "base": None if given is None else str(given),
            **decoding,
        }

    def _new_state(self) -> MonitorState:
        """The state of a training run that begins; refused in the folder of another one."""
        there = [name for name in (STATE, BASE) if (self.out / name).exists()]
        if there and (there != [BASE] or self._given_base is None):
            raise OffleashError(
                f"{self.out} holds {there[0]} of another training run. Remove the folder, or give out=."
            )
        return self.state

    def _stored_state(self, step: int) -> MonitorState:
        """The state of a training run that is resumed; refused where its base is missing or its settings are others."""
        file = self.out / STATE
        if not file.exists() or (self._given_base is None and not is_run(self.out / BASE)):
            raise OffleashError(
                f"This training run is resumed at step {step}, but {self.out} has no base samples, which are drawn "
                "when it starts. Restore the folder, or leave out the monitor."
            )
        stored = read_state(file)
        for name, value in self.state.settings.items():
            if stored.settings.get(name) != value:
                raise OffleashError(
                    f"This training run is resumed with {name} {value!r}, but began with "
                    f"{stored.settings.get(name)!r}. Resume with the same probe set and settings."
                )
        # what was evaluated after the checkpoint is trained again, and evaluated again
        for folder in (*self.out.glob("step-*"), *self.out.glob("confirmation-*")):
            if folder.name.rpartition("-")[2].isdigit() and int(folder.name.rpartition("-")[2]) > step:
                shutil.rmtree(folder, ignore_errors=True)
        return replace(stored, evaluations=[each for each in stored.evaluations if each.step <= step])

    def _write_state(self) -> None:
        if self._main:
            elapsed = self.state.seconds + time.monotonic() - self._started
            write_state(self.out / STATE, replace(self.state, seconds=elapsed))

    @property
    def _main(self) -> bool:
        return bool(self.trainer.accelerator.is_main_process)

    def _on_main(self, work: Callable[[], Result]) -> Result:
        """Do something on the main process; every rank gets its result, or its error, and none waits for ever."""
        if self.trainer.accelerator.num_processes == 1:
            return work()
        from accelerate.utils import broadcast_object_list

        result: Any = None
        error: Exception | None = None
        if self._main:
            try:
                result = work()
            except Exception as raised:
                error = raised
        failure = None if error is None else (isinstance(error, OffleashError), f"{type(error).__name__}: {error}")
        result, failure = broadcast_object_list([result, failure])
        if error is not None:
            raise error
        if failure is not None:
            raise OffleashError(failure[1]) if failure[0] else RuntimeError(failure[1])
        shared: Result = result
        return shared


def _reached(run: Run) -> set[str]:
    assert run.verdicts is not None, "an evaluation has verdicts"
    return set(run.verdicts.filter(verdict="correct").collect()["problem"].unique())


def _is_chat(trainer: Any) -> bool:
    """Whether the trainer's prompts are lists of messages."""
    rows = trainer.train_dataset
    first = next(iter(rows), None) if rows is not None else None
    return first is not None and not isinstance(first.get("prompt"), str)


def _refuse_trainer(trainer: Any) -> None:
    """Refuse a trainer whose parts are not the ones this was written for."""
    version = Version(trl.__version__).release[:2]
    missing = [name for name in NEEDED if not hasattr(trainer, name)]
    if not SUPPORTED[0] <= version < SUPPORTED[1]:
        raise OffleashError(
            f"TRL {trl.__version__} is installed, but SupportMonitor works with 1.16 and later 1.x. "
            "Run pip install 'offleash[trl]'."
        )
    if missing:
        kind = type(trainer).__name__
        raise OffleashError(
            f"SupportMonitor works with GRPOTrainer; this {kind} of TRL {trl.__version__} has no {missing[0]}. "
            "Leave the monitor out, and compare checkpoints instead."
        )
    for name in ("tools", "environment_factories", "rollout_func"):
        if getattr(trainer, name, None):
            raise OffleashError(
                f"SupportMonitor draws single turns, but this trainer has {name}. Leave the monitor out."
            )


def _refuse_options(
    k: int, every: int, on_alarm: object, keep: str | None, floor: float, max_share: float | None
) -> None:
    for name, value in (("k", k), ("every", every)):
        if not isinstance(value, int) or value < 1:
            raise OffleashError(f"{name} must be 1 or more; found {value!r}.")
    if not (on_alarm in ("warn", "stop") or callable(on_alarm)):
        raise OffleashError(f"on_alarm must be 'warn', 'stop' or a function; found {on_alarm!r}.")
    if keep not in (None, BEST):
        raise OffleashError(f"keep must be {BEST!r} or None; found {keep!r}.")
    if not 0 < floor <= 1:
        raise OffleashError(f"floor must be a share above 0 and at most 1; found {floor!r}.")
    if max_share is not None and not max_share > 0:
        raise OffleashError(f"max_share must be a share above 0, or None; found {max_share!r}.")
