"""SupportMonitor: what a training with TRL does to the problems its model can solve, measured while it trains.

    trainer = GRPOTrainer(...)
    trainer.add_callback(ol.SupportMonitor(trainer, probe="probe.jsonl", k=64, every=50))

Every `every` steps it draws k samples per problem of the probe set (probe.py), writes them as a run folder, compares
them with the base's, and hands the values to the trainer's loggers. Losses beyond chance, corrected over all planned
evaluations and confirmed by a second draw, raise an alarm. A training with and without the monitor is the same: random
states are restored, and an evaluation that fails is logged and skipped.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from offleash.comparing.compare import Comparison, compare
from offleash.comparing.question import Question
from offleash.data.atomic import write_text_atomically
from offleash.data.run import PROBE_QUESTION, Run, read_origin, template_hash
from offleash.data.run_folder import is_run, open_run
from offleash.drawing.draw import refuse_greedy_copies
from offleash.errors import OffleashError
from offleash.loading.load import load
from offleash.plugins import is_reference
from offleash.training.evaluation import (
    Alarm,
    Evaluation,
    confirmed_losses,
    first_losses,
    metrics_of,
    token_entropy_values,
)
from offleash.training.probe import ProbeEngine, ProbeJudge, ProbeSample, read_probe, write_draw
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


@dataclass
class MonitorState:
    """What a resumed training needs: the settings that must not change, and the evaluations so far."""

    settings: dict[str, object]
    base_entropy: float | None = None  # of tokens
    evaluations: list[Evaluation] = field(default_factory=list)
    postponed: int = 0
    seconds: float = 0.0  # of training, evaluations not counted
    best: int | None = None  # step of the copy in best_above_floor


class SupportMonitor(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Measures, during a training with TRL, which problems of a probe set the model still reaches.

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
        on_alarm: "warn", "stop" (the training), or a function of an `Alarm`.
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
        self._verifier = None if self._rewards else verifier
        self.engine = ProbeEngine(trainer, read, seed)
        refuse_greedy_copies(self.engine.decoding, k)
        self._threshold = threshold
        self._given_base = base
        self._stack = ExitStack()
        self._judging: ProbeJudge | None = None
        self._base: Run | None = None
        self.state = MonitorState(self._settings())
        self._active = True
        self._started = time.monotonic()
        if self._main:
            self._judge()  # a problem that no verifier can judge is refused now, not after hours

    # What the trainer calls. Only settings are refused, before the first step; later nothing raises.

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Draw the base, or take up what an earlier part of the training has stored."""
        resumed = state.global_step > 0
        if self._main:
            self._refuse_state(resumed, state.global_step)
        self._together()
        if resumed:
            self.state = self._read_state()
        if self._given_base is not None:
            self._base = self._checked_base()
        elif not resumed:
            self._draw_base()
        if self._base is None:
            self._base = open_run(self.out / BASE, BASE)
        self._started = time.monotonic()
        self._write_state()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate where an evaluation is due; whatever goes wrong is logged, and the training goes on."""
        step = state.global_step
        if not self._active or step % self.every or step == 0:
            return
        try:
            if not self._affordable():
                self.state.postponed += 1
                return
            self._evaluate(step, max(1, state.max_steps // self.every), control)
        except Exception as error:
            log.error("The evaluation at step %d was skipped: %s: %s", step, type(error).__name__, error)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Copy a checkpoint that is the best above the floor so far."""
        if self._keep is None or not self._main:
            return
        done = [evaluation for evaluation in self.state.evaluations if self._above_floor(evaluation)]
        best = max(done, key=lambda evaluation: evaluation.metrics["probe/pass@1"], default=None)
        if best is None or best.step != state.global_step or best.step == self.state.best:
            return
        try:
            source, target = Path(args.output_dir) / f"checkpoint-{best.step}", Path(args.output_dir) / BEST
            temporary = target.with_name(BEST + ".copying")
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(source, temporary)
            shutil.rmtree(target, ignore_errors=True)
            temporary.rename(target)
            self.state.best = best.step
            self._write_state()
        except OSError as error:
            log.error("The checkpoint of step %d could not be copied to %s: %s", best.step, BEST, error)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the verifier's workers, and say where nothing was kept."""
        if self._keep is not None and self._main and self.state.best is None:
            log.warning("No evaluated checkpoint kept %.0f%% of what the base reaches: %s is empty.",
                        100 * self._floor, BEST)  # fmt: skip
        if self.state.postponed and self._main:
            log.warning("%d evaluations were postponed, to stay within %.0f%% of the training time.",
                        self.state.postponed, 100 * (self._max_share or 0))  # fmt: skip
        self._stack.close()
        self._judging = None

    # The base.

    def _draw_base(self) -> None:
        samples = self.engine.draw(2 * self.k, BASE)
        self.state.base_entropy = float(self.engine.token_entropy(samples).mean())
        self._write(BASE, BASE, samples)

    def _checked_base(self) -> Run:
        """The base that the user gives: a run folder drawn as the trainer draws, or counts."""
        given = self._given_base
        (run,) = load(f"{BASE}={given}" if isinstance(given, str | Path) else given)  # type: ignore[arg-type]
        run = replace(run, name=BASE)
        if run.verdicts is None:
            log.warning("The base is bare counts: whether they were drawn as this trainer draws cannot be checked.")
        elif isinstance(given, str | Path) and is_run(Path(given)):
            self._refuse_base(Path(given))
        else:
            raise OffleashError(f"base= must be a run folder or a table of counts; found {given}.")
        compared = set(run.problems["hash"].drop_nulls()) | set(run.problems["problem"])
        wanted = self.engine.probe.problems.select("problem", "hash").rows()
        missing = [name for name, key in wanted if name not in compared and key not in compared]
        if missing:
            raise OffleashError(
                f"The base lacks problem {missing[0]!r} of the probe set. Draw it on the same problems."
            )
        fewest = _fewest_samples(run)
        if fewest < 2 * self.k:
            raise OffleashError(
                f"The base has {fewest} samples of a problem, and k = {self.k} needs twice that many, {2 * self.k}. "
                "Draw more, or use a smaller k."
            )
        return run

    def _refuse_base(self, folder: Path) -> None:
        """Refuse a base that was drawn otherwise than the trainer draws: the comparison would be of decodings."""
        origin, ours = read_origin(folder), self.engine.origin(BASE)
        if origin is None:
            raise OffleashError(f"{folder} does not say how it was drawn. Leave out base=, or give bare counts.")
        for name, value in ours.decoding.items():
            if origin.decoding.get(name) != value:
                raise OffleashError(
                    f"{folder} was drawn with {name} {origin.decoding.get(name)}, and the trainer draws with {value}. "
                    "Draw the base as the trainer does, or leave out base=."
                )
        if origin.template != template_hash(self.engine.rendered(PROBE_QUESTION)):
            raise OffleashError(f"{folder} was drawn with another chat template than the trainer's. Leave out base=.")
        if {"repetition_penalty", "generation_kwargs"} & ours.about.keys() and origin.about.get("sampler") != "trl":
            raise OffleashError(
                "The trainer draws with generation_kwargs that a run folder cannot match. Leave out base=."
            )

    # An evaluation.

    def _evaluate(self, step: int, planned: int, control: Any) -> None:
        started = time.monotonic()
        name = f"step-{step:05d}"
        samples = self.engine.draw(self.k, step)
        entropy_P = self.engine.token_entropy(samples)
        comparison = self._write(name, name, samples)
        done: Evaluation | None = None
        if comparison is not None:
            tally = comparison.tally
            metrics = {**metrics_of(comparison, self.k), **token_entropy_values(entropy_P)}
            done = Evaluation(step, name, 0.0, metrics, first_losses(tally.drawn_PR, tally.correct_PR, planned))
            retest = comparison.evidence.retest
            done.net_ratio = retest.net_ratio if retest is not None and retest.k == self.k else None
            metrics |= self._since_last(name)
        done = self._shared(done)
        if done.losses_at_least:
            again = self._write(f"{name}-again", f"{name}-again", self.engine.draw(self.k, step, "again"))
            done.confirmed_at_least = self._shared(
                None if again is None else confirmed_losses(again.tally.drawn_PR, again.tally.correct_PR)
            )
        done.seconds = time.monotonic() - started
        self.state.evaluations.append(done)
        self._report(done, planned, control)
        self._write_state()

    def _report(self, done: Evaluation, planned: int, control: Any) -> None:
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
                alarm.step, alarm.losses_at_least, planned, alarm.confirmed_at_least, self.out / BASE, alarm.folder,
            )  # fmt: skip
        if self._on_alarm == "stop":
            control.should_training_stop = True
        elif callable(self._on_alarm):
            self._on_alarm(alarm)

    def _note_entropies(self, done: Evaluation) -> None:
        """A line of information: the early-warning study (research/early_warning) found no signal in time."""
        answer, base = done.metrics.get("probe/entropy_answer"), done.metrics.get("probe/entropy_answer_base")
        token = done.metrics.get("probe/entropy_token")
        if answer is None or base is None or token is None or self.state.base_entropy is None:
            return
        if answer < (1 - ENTROPY_FALL) * base and token >= self.state.base_entropy:
            log.info(
                "Step %d: answer entropy fell from %.2f to %.2f nats, token entropy did not. This is information, no "
                "warning: in our study no such signal announced a loss in time.", done.step, base, answer,
            )  # fmt: skip

    def _since_last(self, name: str) -> dict[str, float]:
        """Problems that the evaluation before reached and this one did not, and the reverse."""
        if not self.state.evaluations:
            return {}
        before, now = (_reached(open_run(self.out / folder)) for folder in (self.state.evaluations[-1].folder, name))
        return {"probe/lost_since_last": float(len(before - now)), "probe/gained_since_last": float(len(now - before))}

    def _write(self, folder: str, name: str, samples: list[ProbeSample]) -> Comparison | None:
        """Write and judge a draw on the main process; the comparison with the base, where this is no base."""
        if not self._main:
            return None
        write_draw(self.out / folder, name, self.engine, samples, f"{self.out}/{folder}", self._judge())
        if folder == BASE:
            return None
        assert self._base is not None, "it is drawn or read before the first step"
        return compare(self._base, open_run(self.out / folder, name), Question(at=self.k))

    def _above_floor(self, evaluation: Evaluation) -> bool:
        return evaluation.net_ratio is not None and evaluation.net_ratio >= self._floor

    def _affordable(self) -> bool:
        """Whether an evaluation fits into the share of training time; the main process decides for all."""
        spent = [evaluation.seconds for evaluation in self.state.evaluations]
        elapsed = self.state.seconds + time.monotonic() - self._started - sum(spent)
        # before the first evaluation its cost is not known, so that one is held
        fits = self._max_share is None or not spent or sum(spent) + spent[-1] <= self._max_share * elapsed
        return bool(self._shared(fits if self._main else None))

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
        """What must be the same when a training is resumed."""
        decoding = {name: value for name, value in asdict(self.engine.decoding).items() if name != "stop"}
        verifier = "rewards" if self._rewards else self._verifier or "each problem's own"
        given = None if self._given_base is None else str(self._given_base)[:200]
        return {
            "probe": self.engine.probe.hash,
            "k": self.k,
            "every": self.every,
            "verifier": verifier,
            "base": given,
            **decoding,
        }

    def _refuse_state(self, resumed: bool, step: int) -> None:
        """Refuse a folder of another training, and a resumed training whose base or settings are not there."""
        file = self.out / STATE
        if not resumed:
            if file.exists():
                raise OffleashError(f"{self.out} holds the evaluations of another training. Remove it, or give out=.")
            return
        if not file.exists() or (self._given_base is None and not is_run(self.out / BASE)):
            raise OffleashError(
                f"This training is resumed at step {step}, and {self.out} has no base samples, which are drawn at its "
                "beginning. Restore the folder, or give base=."
            )
        stored = self._read_state()
        for name, value in self.state.settings.items():
            if stored.settings.get(name) != value:
                raise OffleashError(
                    f"This training is resumed with {name} {value!r}, and began with {stored.settings.get(name)!r}. "
                    "Resume with the same probe set and settings."
                )
        # what was evaluated after the checkpoint is trained again, and evaluated again
        for evaluation in [each for each in stored.evaluations if each.step > step]:
            for folder in (evaluation.folder, f"{evaluation.folder}-again"):
                shutil.rmtree(self.out / folder, ignore_errors=True)
        for leftover in self.out.glob("step-*"):
            if int(leftover.name[5:10]) > step:
                shutil.rmtree(leftover, ignore_errors=True)
        self.state = replace(stored, evaluations=[each for each in stored.evaluations if each.step <= step])
        self._write_state()

    def _read_state(self) -> MonitorState:
        try:
            document = json.loads((self.out / STATE).read_text(encoding="utf-8"))
            rows = [Evaluation(**row) for row in document.pop("evaluations")]
            return MonitorState(**{**document, "evaluations": rows})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise OffleashError(f"{self.out / STATE} cannot be read ({error}). Restore it, or give out=.") from None

    def _write_state(self) -> None:
        if not self._main:
            return
        elapsed = self.state.seconds + time.monotonic() - self._started
        self.out.mkdir(parents=True, exist_ok=True)
        document = asdict(replace(self.state, seconds=elapsed))
        write_text_atomically(self.out / STATE, json.dumps(document, indent=2) + "\n")

    @property
    def _main(self) -> bool:
        return bool(self.trainer.accelerator.is_main_process)

    def _together(self) -> None:
        self.trainer.accelerator.wait_for_everyone()

    def _shared(self, value: Any) -> Any:
        """The main process's value, on every rank."""
        if self.trainer.accelerator.num_processes == 1:
            return value
        from accelerate.utils import broadcast_object_list

        return broadcast_object_list([value])[0]


def _reached(run: Run) -> set[str]:
    assert run.verdicts is not None, "an evaluation has verdicts"
    return set(run.verdicts.filter(verdict="correct").collect()["problem"].unique())


def _fewest_samples(run: Run) -> int:
    """Judged samples of the problem that has fewest."""
    if run.counts is not None:
        return min(run.counts["n"].to_list(), default=0)
    assert run.verdicts is not None, "a run has verdicts or counts"
    counts = run.verdicts.drop_nulls("verdict").group_by("problem").len().collect()["len"].to_list()
    return min(counts, default=0) if len(counts) == run.problems.height else 0


def _is_chat(trainer: Any) -> bool:
    """Whether the trainer's prompts are lists of messages."""
    rows = trainer.train_dataset
    first = next(iter(rows), None) if rows is not None else None
    return first is not None and not isinstance(first.get("prompt"), str)


def _refuse_trainer(trainer: Any) -> None:
    """Refuse a trainer whose parts are not the ones this was written for."""
    version = tuple(int(part) for part in trl.__version__.split(".")[:2])
    missing = [name for name in NEEDED if not hasattr(trainer, name)]
    if not SUPPORTED[0] <= version < SUPPORTED[1]:
        raise OffleashError(
            f"TRL {trl.__version__} is installed, and SupportMonitor works with 1.16 and later 1.x. "
            "Run pip install 'offleash[trl]'."
        )
    if missing:
        raise OffleashError(
            f"SupportMonitor works with GRPOTrainer; this {type(trainer).__name__} has no {missing[0]}. "
            "Leave the monitor out, and compare checkpoints instead."
        )
    for name in ("tools", "environment_factories", "rollout_func"):
        if getattr(trainer, name, None):
            raise OffleashError(
                f"SupportMonitor draws single turns, and this trainer has {name}. Leave the monitor out."
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
