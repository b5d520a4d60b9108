"""Verifiers as reward functions of TRL's trainers.

    from offleash.training.trl import reward
    trainer = GRPOTrainer(model=..., reward_funcs=reward("math"), train_dataset=..., args=...)

TRL calls a reward with lists: prompts, completions, token ids and every column of the dataset, one entry per sample.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.files.columns import PROBLEM_COLUMNS, all_columns, guess_columns
from offleash.files.rows import Row
from offleash.options import Judging
from offleash.plugins import is_reference
from offleash.problems.problem import NO_GOLD_NEEDED, Problem
from offleash.problems.read import problem_of
from offleash.training.rewards import IN_TRAINING, JudgedSample, RewardJudge, RewardValues, completion_text, log

Rewards = list[float | None]
# what TRL passes beside the columns of the dataset
TRL_ARGUMENTS = ("trainer_state", "log_extra", "log_metric", "environments")
DATA = Path("training data")  # where problems come from, for names and errors
MAX_ROWS = 100_000  # remembered rows of the dataset


def reward(
    verifier: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    unread: float | None = 0.0,
    failed: float | None = None,
    end_tokens: Collection[int] | None = None,
    opened: bool = False,
    judging: Judging = IN_TRAINING,
    asynchronous: bool = False,
) -> Callable[..., Rewards] | Callable[..., Awaitable[Rewards]]:
    """A verifier as a reward function of TRL: 1 for correct samples, 0 for wrong ones.

    Args:
        verifier: a name such as `math`, or a function of your own as FILE.py:NAME; None: each row's column `verifier`.
        columns: which column of the dataset is which, where the usual names do not say: {"gold": "reference"}.
        unread: the reward of samples without an answer. None leaves them out of the group.
        failed: the reward of samples that could not be judged: a time limit, a gold answer that cannot be read.
        end_tokens: the ids of the tokens that end a sample, such as [tokenizer.eos_token_id]. Samples that end in
            another one count as truncated, so that the end of a cut text is not read as an answer.
        opened: the prompt ends in <think>, so that a text without </think> is unfinished.
        judging: worker processes, threshold of your own function, judge model. Verdicts are not cached on disk.
        asynchronous: an `async def`, which TRL runs concurrently with its other asynchronous rewards.

    Returns:
        The function for `reward_funcs`. It logs `<name>/unread_rate` and `<name>/failed_rate`, and with
        `log_completions` a column `<name>_verdict`.

    >>> score = reward("math")
    >>> score(prompts=["What is 1/2?"] * 2, completions=["\\\\boxed{0.5}", "\\\\boxed{2}"], answer=["1/2", "1/2"])
    [1.0, 0.0]
    """
    for role in columns or {}:
        if role not in PROBLEM_COLUMNS:
            raise unknown("column role", role, PROBLEM_COLUMNS)
    trl_reward = _TrlReward(
        RewardJudge(verifier, judging, opened), dict(columns or {}), RewardValues(unread, failed), end_tokens
    )

    def score(prompts: Sequence[object], completions: Sequence[object], **given: object) -> Rewards:
        problems, texts, truncated = trl_reward.samples(prompts, completions, given)
        return trl_reward.finish(trl_reward.judge.judge(problems, texts, truncated), given)

    async def score_async(prompts: Sequence[object], completions: Sequence[object], **given: object) -> Rewards:
        problems, texts, truncated = trl_reward.samples(prompts, completions, given)
        judged = await asyncio.wrap_future(trl_reward.judge.submit(problems, texts, truncated))
        return trl_reward.finish(judged, given)

    function = score_async if asynchronous else score
    function.__name__ = trl_reward.name  # the name under which TRL logs the reward
    return function


class _TrlReward:
    """What the synchronous and the asynchronous function share."""

    def __init__(
        self, judge: RewardJudge, columns: dict[str, str], values: RewardValues, end_tokens: Collection[int] | None
    ) -> None:
        self.judge, self._columns, self._values, self._end_tokens = judge, columns, values, end_tokens
        verifier = judge.verifier or "verifier"
        self.name = verifier.rpartition(":")[2] if is_reference(verifier) else verifier
        self._roles: dict[tuple[str, ...], dict[str, str]] = {}  # by columns: those of an evaluation may be others
        self._problems: dict[str, Problem] = {}

    def samples(
        self, prompts: Sequence[object], completions: Sequence[object], given: Mapping[str, object]
    ) -> tuple[list[Problem], list[str], list[bool]]:
        """The problem and the text of every sample, and whether it was cut off."""
        if any(not isinstance(completion, str) for completion in completions):
            self.judge.takes_messages()
        ids = given.get("completion_ids")
        truncated = [False] * len(completions)
        if self._end_tokens is not None and isinstance(ids, Sequence):
            truncated = [bool(tokens) and tokens[-1] not in self._end_tokens for tokens in ids]
        names = [name for name in given if name not in (*TRL_ARGUMENTS, "completion_ids", "prompt")]
        data = {name: values for name in names if isinstance(values := given[name], Sequence)}
        rows = [
            {**{name: _without_nulls(values[row]) for name, values in data.items()}, "prompt": prompt_text(prompt)}
            for row, prompt in enumerate(prompts)
        ]
        return [self._problem(row) for row in rows], [completion_text(text) for text in completions], truncated

    def _problem(self, row: dict[str, object]) -> Problem:
        key = repr(row)
        if key not in self._problems:
            if len(self._problems) >= MAX_ROWS:
                self._problems.clear()
            self._problems[key] = self._read(row, len(self._problems))
        return self._problems[key]

    def _read(self, row: dict[str, object], number: int) -> Problem:
        """The problem of a row; one that cannot be read gets no gold answer, so that its samples are `failed`."""
        known = all_columns([row])
        if known not in self._roles:
            self._roles[known] = self._guess_roles(known)
        try:
            return problem_of(DATA, Row(DATA, number, row), number, self._roles[known], None)
        except OffleashError as error:
            if self.judge.verifier is not None and is_reference(self.judge.verifier):  # it may need no gold answer
                extra_columns = {name: value for name, value in row.items() if name != "prompt"}
                return Problem(f"{DATA}-{number}", str(row["prompt"]), columns=extra_columns)
            log.warning("Row %d of the dataset cannot be read: %s", number, error)
            return Problem(f"{DATA}-{number}", str(row["prompt"]), verifier=self.judge.verifier or "string")

    def _guess_roles(self, known: tuple[str, ...]) -> dict[str, str]:
        """Which column is which; refused where the verifier needs gold answers and there are none."""
        for role, column in self._columns.items():
            if column and column not in known:
                raise OffleashError(
                    f"The dataset has no column {column!r} (columns={{{role!r}: {column!r}}}). "
                    f"It has: {', '.join(known)}."
                )
        roles = guess_columns(PROBLEM_COLUMNS, known, self._columns)
        verifier = self.judge.verifier
        if verifier is None or verifier in NO_GOLD_NEEDED or is_reference(verifier) or "gold" in roles:
            return roles
        raise OffleashError(
            f"The reward {self.name!r} needs gold answers, but the dataset has only the columns {', '.join(known)}. "
            "Name the column of answers: columns={'gold': 'COLUMN'}."
        )

    def finish(self, judged: Sequence[JudgedSample], given: Mapping[str, object]) -> Rewards:
        """The rewards; what is known beside them goes to TRL's logs, where it offers to take it."""
        log_extra, log_metric = given.get("log_extra"), given.get("log_metric")
        if callable(log_extra):
            log_extra(f"{self.name}_verdict", [sample.verdict.value for sample in judged])
        if callable(log_metric):
            for verdict in (Verdict.UNREAD, Verdict.FAILED):
                share = sum(sample.verdict is verdict for sample in judged) / max(1, len(judged))
                log_metric(f"{self.name}/{verdict.value}_rate", share)
        return [self._values.of(sample.verdict) for sample in judged]


def _without_nulls(value: object) -> object:
    """A value of a dataset; its objects have every key that any row has, with None where a row has none."""
    return {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, Mapping) else value


def prompt_text(prompt: object) -> str:
    """The text of a prompt: a string, or the last message of the user."""
    if isinstance(prompt, str):
        return prompt
    turns = prompt if isinstance(prompt, Sequence) else []
    user_turns = [turn for turn in turns if isinstance(turn, Mapping) and turn.get("role") == "user"]
    return completion_text([{**user_turns[-1], "role": "assistant"}]) if user_turns else ""
