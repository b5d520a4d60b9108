"""The probe set of a training run: its problems, samples of it drawn through TRL's own engine, and their run folders.

A draw goes through the trainer's `_generate_single_turn`, so through whatever the trainer generates with: transformers,
continuous batching or vLLM. All ranks take part, since weights may be spread over them; each makes a share of the
calls, and the main process writes and judges. All calls have one shape, because some engines gather them over ranks.
"""

import asyncio
import inspect
import json
import math
import random
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from offleash.data.run import PROBE_QUESTION, Budget, Origin, template_hash
from offleash.data.run_folder import RunFolder, claim_run
from offleash.data.tables import SAMPLES, TRUNCATED, VERDICTS
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.files.columns import PROBLEM_COLUMNS, all_columns, guess_columns
from offleash.files.rows import Row
from offleash.loading.problem_set import load_problems
from offleash.problems.problem import NO_GOLD_NEEDED, Problem, table
from offleash.problems.read import problem_of
from offleash.samplers.chat_template import opens_reasoning
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.training.rewards import completion_text
from offleash.verifiers.extraction.extract import ANSWER_STEPS, extract
from offleash.verifying.cases import CasesByProblem
from offleash.verifying.judge import Judge
from offleash.verifying.verify import storable, stored_name, verify_shards

PROBE = Path("probe")  # where the problems come from, for names and errors
REWARDS = "trl-rewards@1"  # the name of verdicts by the trainer's own reward functions
REWARD_BATCH = 1_024  # samples per call of a reward function
NOT_COLUMNS = ("prompt", "completion", "completion_ids")  # which TRL passes under names of its own
Trainer = Any  # a GRPOTrainer: TRL has no types


@dataclass(frozen=True)
class Probe:
    """Problems that every evaluation draws from, with their prompts and rows as the trainer's datasets have them."""

    problems: pl.DataFrame  # PROBLEMS
    prompts: tuple[object, ...]  # texts, or lists of messages
    rows: tuple[Mapping[str, object], ...]  # every column, for the trainer's reward functions

    @property
    def names(self) -> list[str]:
        """Ids of the problems, in order."""
        return list(self.problems["problem"])

    @property
    def hash(self) -> str:
        """Of everything that verdicts and samples depend on: a resumed run needs the same probe set."""
        text = self.problems.write_json() + json.dumps(self.prompts, default=str)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    @property
    def has_further_messages(self) -> bool:
        """Whether a prompt has more than the one message of a user, such as a system message."""
        return any(isinstance(prompt, list) and len(prompt) > 1 for prompt in self.prompts)


def read_probe(given: object, chat: bool, needs_gold: bool, columns: Mapping[str, str] | None = None) -> Probe:
    """A probe set from what a user gives.

    Args:
        given: a name or file of problems, a table of them, or a dataset as the trainer takes: rows with a `prompt`.
        chat: the trainer's prompts are lists of messages, so those of named problems are made such.
        needs_gold: the verifier compares with gold answers.
        columns: which column of a dataset is which, where the usual names do not say.
    """
    if isinstance(given, str | Path):
        given = load_problems(given).frame
    if isinstance(given, pl.DataFrame):
        texts = [prompt or question for prompt, question in given.select("prompt", "question").rows()]
        prompts = [[{"role": "user", "content": text}] if chat else text for text in texts]
        golds = [dict.fromkeys(("answer", "solution", "ground_truth", "gold"), gold) for gold in given["gold"]]
        rows = [{**row, **gold} for row, gold in zip(given.iter_rows(named=True), golds, strict=True)]
        return _checked_probe(given, prompts, rows)
    if not isinstance(given, Iterable):
        raise OffleashError(f"probe= must be problems or a dataset; found a {type(given).__name__}.")
    rows = [dict(row) for row in given]
    if not rows or any("prompt" not in row for row in rows):
        shown = ", ".join(rows[0]) if rows else "no rows"
        raise OffleashError(f"A probe set needs a column 'prompt', like the trainer's dataset; found {shown}.")
    problems = [_problem(row, number, needs_gold, columns or {}) for number, row in enumerate(rows)]
    return _checked_probe(table(problems), [row["prompt"] for row in rows], rows)


def _problem(row: Mapping[str, object], number: int, needs_gold: bool, columns: Mapping[str, str]) -> Problem:
    values = {name: value for name, value in row.items() if value is not None and name != "prompt"}
    users = completion_text([{**turn, "role": "assistant"} for turn in _turns(row["prompt"])])
    values["prompt"] = users or str(row["prompt"])
    known = all_columns([values])
    roles = guess_columns(PROBLEM_COLUMNS, known, columns)
    verifier = row.get("verifier")
    if not needs_gold and "gold" not in roles and verifier not in NO_GOLD_NEEDED:
        further = {name: value for name, value in values.items() if _is_json(value)}
        return Problem(f"{PROBE}-{number}", str(values["prompt"]), columns=further)
    try:
        return problem_of(PROBE, Row(PROBE, number, values), number, roles, None)
    except OffleashError as error:
        raise OffleashError(f"Row {number} of the probe set: {error}") from None


def _turns(prompt: object) -> list[dict[str, object]]:
    turns = prompt if isinstance(prompt, list) else []
    return [turn for turn in turns if isinstance(turn, dict) and turn.get("role") == "user"]


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _checked_probe(problems: pl.DataFrame, prompts: Sequence[object], rows: Sequence[Mapping[str, object]]) -> Probe:
    if problems["problem"].n_unique() < problems.height:
        raise OffleashError(f"The probe set has {problems.height} rows, but some share an id. Give each its own.")
    if not problems.height:
        raise OffleashError("The probe set is empty. Give at least one problem.")
    return Probe(problems, tuple(prompts), tuple(rows))


# Drawing through the trainer.


@dataclass(frozen=True)
class ProbeSample:
    """One completion by the live model."""

    row: int  # of the problem in the probe set
    index: int
    text: str
    ids: tuple[int, ...]
    truncated: bool


@dataclass(frozen=True)
class ProbeEngine:
    """A trainer as a sampler of the probe set."""

    trainer: Trainer
    probe: Probe
    seed: int

    @property
    def decoding(self) -> SamplingParams:
        """How the trainer samples."""
        args = self.trainer.args
        top_k = args.top_k if args.top_k is not None and args.top_k > 0 else 0
        return SamplingParams(args.temperature, args.top_p, top_k, args.min_p or 0.0, args.max_completion_length)

    @property
    def batch(self) -> int:
        """Samples per call: as many as the trainer draws at once."""
        return int(self.trainer.args.per_device_train_batch_size * self.trainer.args.steps_per_generation)

    def draw(self, samples: int, *key: object) -> list[ProbeSample]:
        """So many samples per problem, on all ranks together; every rank gets all of them.

        `key` names the draw: with the seed it decides the random numbers of every call, whichever rank makes it.
        """
        from accelerate.utils import gather_object

        accelerator = self.trainer.accelerator
        prompt_ids, _, _ = self.trainer._tokenize_prompts(list(self.probe.prompts))
        calls = probe_calls(len(self.probe.prompts), samples, self.batch)
        # every rank makes the same number of calls: engines that gather over ranks would wait for the others
        padded = calls + calls[: -len(calls) % accelerator.num_processes]
        drawn: list[ProbeSample] = []
        error: str | None = None
        with restored_randomness(), _evaluating(self.trainer.model):
            for number in range(accelerator.process_index, len(padded), accelerator.num_processes):
                try:
                    made = self._call(padded[number], prompt_ids, seed_of(self.seed, *key, number))
                except Exception as raised:  # the other ranks must hear of it, or they would wait forever
                    error = f"{type(raised).__name__}: {raised}"
                    break
                drawn += made if number < len(calls) else []
        everyone = gather_object([(error, drawn)])
        errors = [message for message, _ in everyone if message is not None]
        if errors:
            raise RuntimeError(f"generating failed ({errors[0]})")
        return sorted(
            (sample for _, part in everyone for sample in part), key=lambda sample: (sample.row, sample.index)
        )

    def _call(self, call: "ProbeCall", prompt_ids: list[list[int]], seed: int) -> list[ProbeSample]:
        torch.manual_seed(seed % (1 << 63))
        ids = [prompt_ids[row] for row in call.rows for _ in range(call.samples)]
        completions, _ = self.trainer._generate_single_turn(ids, None, {}, call.samples)
        texts = self.trainer.processing_class.batch_decode(completions, skip_special_tokens=True)
        ends = {*self.trainer.eos_token_ids, self.trainer._tokenizer.pad_token_id}
        return [
            ProbeSample(row, call.first + index, text, tuple(tokens), bool(tokens) and tokens[-1] not in ends)
            for (row, index), text, tokens in zip(
                [(row, index) for row in call.rows for index in range(call.samples)], texts, completions, strict=True
            )
            if row in call.wanted
        ]

    def token_entropy(self, samples: Sequence[ProbeSample]) -> np.ndarray:
        """Mean entropy per token, in nats, of the first sample of each problem, as far as one batch goes."""
        first = [sample for sample in samples if sample.index == 0 and sample.ids][: self.batch]
        if not first:
            return np.zeros(0)
        prompt_ids, _, _ = self.trainer._tokenize_prompts([self.probe.prompts[sample.row] for sample in first])
        length = max(len(sample.ids) for sample in first)
        width = max(len(ids) for ids in prompt_ids)
        tokens = torch.full((len(first), width + length), self.trainer._tokenizer.pad_token_id)
        mask = torch.zeros_like(tokens)
        for row, (ids, sample) in enumerate(zip(prompt_ids, first, strict=True)):
            tokens[row, width - len(ids) : width + len(sample.ids)] = torch.tensor([*ids, *sample.ids])
            mask[row, width - len(ids) : width + len(sample.ids)] = 1
        device = self.trainer.accelerator.device
        with restored_randomness(), _evaluating(self.trainer.model), torch.no_grad():
            _, entropy, _ = self.trainer._get_per_token_logps_and_entropies(
                self.trainer.model, tokens.to(device), mask.to(device), length, compute_entropy=True
            )
        kept = mask[:, -length:].double()
        mean: np.ndarray = ((entropy.double().cpu() * kept).sum(1) / kept.sum(1)).numpy()
        return mean

    def origin(self, key: str) -> Origin:
        """What run.json says of a draw."""
        rendered = self.rendered(PROBE_QUESTION)
        prompts = json.dumps(self.probe.prompts, default=str)
        name = str(getattr(self.trainer.model.config, "_name_or_path", "") or "model")
        engine = "vllm" if self.trainer.use_vllm else "transformers"
        about: dict[str, object] = {"sampler": "trl", "model": name, "engine": engine}
        if self.trainer.args.repetition_penalty != 1:
            about["repetition_penalty"] = self.trainer.args.repetition_penalty
        if self.trainer.args.generation_kwargs:
            about["generation_kwargs"] = json.dumps(self.trainer.args.generation_kwargs, default=str, sort_keys=True)
        decoding = asdict(self.decoding)
        return Origin(
            model=name,
            about=about,
            decoding={**decoding, "stop": list(decoding["stop"])},
            seed=self.seed,
            key=f"{seed_of(self.seed, key):016x}",
            chunks={"first": self.batch, "growth": 1, "largest": self.batch},
            thinking=opens_reasoning(rendered),
            prompts=blake2b(prompts.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest(),
            template=template_hash(rendered),
        )

    def rendered(self, text: str) -> str:
        """A text as the model reads it: through the chat template where the probe's prompts are messages."""
        if isinstance(self.probe.prompts[0], str):
            return text
        message = [{"role": "user", "content": text}]
        ids = self.trainer._tokenize_prompts([message])[0][0]
        return str(self.trainer.processing_class.decode(ids, skip_special_tokens=False))


@dataclass(frozen=True)
class ProbeCall:
    """One call of the engine: several problems, equally many samples of each."""

    rows: tuple[int, ...]  # problems; the last ones may be there only to fill the batch
    wanted: frozenset[int]
    first: int  # index of the first sample of each
    samples: int


def probe_calls(problems: int, samples: int, batch: int) -> list[ProbeCall]:
    """All calls of a draw, alike in shape.

    >>> [(call.rows, call.first, call.samples) for call in probe_calls(problems=3, samples=4, batch=8)]
    [((0, 1), 0, 4), ((2, 0), 0, 4)]
    """
    group = next(size for size in range(min(samples, batch), 0, -1) if samples % size == 0)
    together = max(1, min(batch // group, problems))
    calls = []
    for start in range(0, problems, together):
        wanted = list(range(start, min(start + together, problems)))
        rows = (*wanted, *(row % problems for row in range(together - len(wanted))))
        calls += [ProbeCall(rows, frozenset(wanted), first, group) for first in range(0, samples, group)]
    return calls


@contextmanager
def restored_randomness() -> Iterator[None]:
    """Leave every generator that a trainer uses as it was: its next step draws what it would have drawn."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """The model without dropout; afterwards each of its parts is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


# Writing and judging a draw.


@dataclass(frozen=True)
class ProbeJudge:
    """Who judges the samples: verifiers in worker processes, or the trainer's own reward functions in this one."""

    judge: Judge | None  # None: the trainer's rewards
    cases: CasesByProblem
    threshold: float = 1.0

    @property
    def name(self) -> str:
        """The name that its verdicts are stored under."""
        return REWARDS if self.judge is None else stored_name(self.judge, [case[1] for case in self.cases.values()])


def write_draw(
    folder: Path, name: str, engine: ProbeEngine, samples: Sequence[ProbeSample], key: str, judging: ProbeJudge
) -> None:
    """A draw as a run folder with verdicts; it appears under its name only when it is complete."""
    temporary = folder.with_name(f".{folder.name}.drawing")  # hidden: a glob such as step-* must not find it
    shutil.rmtree(temporary, ignore_errors=True)
    problems, origin = engine.probe.problems, engine.origin(key)
    k = 1 + max(sample.index for sample in samples)
    source = "drawn during a training run by TRL"
    facts = {"model": origin.model, "decoding": json.dumps(origin.decoding), "source": source}
    with claim_run(temporary) as run:
        run.begin(name, problems, facts, Budget(k), origin)
        shard = run.write_samples(_sample_table(engine.probe, samples))
        if judging.judge is not None:
            verify_shards(run, judging.judge, judging.cases, origin.thinking)
        else:
            _write_rewards(run, shard, engine, samples, judging.threshold)
    temporary.rename(folder)


def _sample_table(probe: Probe, samples: Sequence[ProbeSample]) -> pl.DataFrame:
    names = probe.names
    columns: dict[str, list[object]] = {
        "problem": [names[sample.row] for sample in samples],
        "index": [sample.index for sample in samples],
        "text": [sample.text for sample in samples],
        "tokens": [len(sample.ids) for sample in samples],
        "finish": [TRUNCATED if sample.truncated else "stop" for sample in samples],
    }
    empty: dict[str, list[object]] = {name: [None] * len(samples) for name in SAMPLES if name not in columns}
    return pl.DataFrame({**columns, **empty}, schema=SAMPLES, strict=False).select(list(SAMPLES))


def _write_rewards(
    run: RunFolder, shard: str, engine: ProbeEngine, samples: Sequence[ProbeSample], threshold: float
) -> None:
    """Verdicts by the trainer's reward functions: correct from the threshold on, failed where all return None."""
    rewards = [
        reward
        for start in range(0, len(samples), REWARD_BATCH)
        for reward in trainer_rewards(engine.trainer, engine.probe, samples[start : start + REWARD_BATCH])
    ]
    verdicts = [
        Verdict.FAILED if reward is None else Verdict.CORRECT if reward >= threshold else Verdict.WRONG
        for reward in rewards
    ]
    answers = [extract(sample.text, ANSWER_STEPS, sample.truncated).answer for sample in samples]
    columns: dict[str, list[object]] = {
        "problem": [engine.probe.names[sample.row] for sample in samples],
        "index": [sample.index for sample in samples],
        "verdict": [verdict.value for verdict in verdicts],
        "answer": [None if answer is None else storable(answer) for answer in answers],
        "score": list(rewards),
    }
    empty: dict[str, list[object]] = {name: [None] * len(samples) for name in VERDICTS if name not in columns}
    frame = pl.DataFrame({**columns, **empty}, schema=VERDICTS, strict=False).select(list(VERDICTS))
    run.write_verdicts(REWARDS, frame, shard=shard)


def trainer_rewards(trainer: Trainer, probe: Probe, samples: Sequence[ProbeSample]) -> list[float | None]:
    """The sum of the trainer's rewards with their weights, as TRL computes it; None where all of them are None."""
    rows = [probe.rows[sample.row] for sample in samples]
    prompts = [probe.prompts[sample.row] for sample in samples]
    chat = not isinstance(prompts[0], str)
    texts: list[object] = [sample.text for sample in samples]
    completions = [[{"role": "assistant", "content": text}] for text in texts] if chat else texts
    columns = {name: [row.get(name) for row in rows] for name in rows[0] if name not in NOT_COLUMNS}
    given = {**columns, "trainer_state": trainer.state, "log_extra": _ignore, "log_metric": _ignore}
    arguments = {"prompts": prompts, "completions": completions, "completion_ids": [list(s.ids) for s in samples]}
    total: list[float | None] = [None] * len(samples)
    for function, weight in zip(trainer.reward_funcs, trainer.reward_weights.tolist(), strict=True):
        values = _called(trainer, function, {**arguments, **given})
        total = [
            before if value is None or math.isnan(value) else (before or 0.0) + weight * value
            for before, value in zip(total, values, strict=True)
        ]
    return total


def _called(trainer: Trainer, function: Callable[..., Any], arguments: Mapping[str, object]) -> list[float | None]:
    called = function(**arguments)
    if inspect.isawaitable(called):  # an async def, or an object whose __call__ is one
        called = asyncio.run_coroutine_threadsafe(_awaited(called), trainer.async_loop).result()
    return list(called)


async def _awaited(called: Awaitable[Any]) -> Any:
    return await called


def refuse_reward_models(trainer: Trainer) -> None:
    """Refuse rewards that are models: they give no verdicts, and take texts instead of columns."""
    for function in trainer.reward_funcs:
        if isinstance(function, torch.nn.Module):
            raise OffleashError(
                f"The trainer's reward {type(function).__name__} is a model, which gives no verdicts. "
                "Choose a verifier: verifier='math'."
            )


def _ignore(*_: object) -> None:
    """The probe's samples stay out of the trainer's own logs."""
