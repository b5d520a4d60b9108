"""Problems paired with their verifiers, refused early if unreadable, and texts extracted and judged in bulk.

Drawing, training and certificates call these functions too: every distinct text is parsed once per batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.extraction.extract import Extraction, extract
from offleash.verifiers.registry import verifier as named
from offleash.verifiers.verifier import Judgement, Verifier
from offleash.verifying.judge import Judge, ProblemCase, problem_case

SHOWN = 5  # problems named in a message
UNREAD = Judgement(Verdict.UNREAD)


@dataclass(frozen=True)
class ExtractionOptions:
    """Options of extraction. They change verdicts, so they are part of a verifier's name."""

    last_number: bool = False  # also take a text's last number for its answer
    opened: bool = False  # the prompt opens the block of reasoning

    def of(self, verifier: Verifier) -> Verifier:
        if not (self.last_number or self.opened):
            return verifier
        suffix = (".last_number" if self.last_number else "") + (".opened" if self.opened else "")
        steps = verifier.steps
        if self.last_number and "last_number" not in steps:
            steps = (*steps, "last_number")
        return replace(verifier, name=verifier.name + suffix, steps=steps)


def problem_cases(
    problems: pl.DataFrame, wanted: str | None, extraction: ExtractionOptions, where: str
) -> dict[str, tuple[ProblemCase, Verifier]]:
    """Every problem of a table with its verifier: the one wanted for all, else its own."""
    chosen = named(wanted) if wanted else None
    without = problems.filter(pl.col("verifier").is_null()).height if chosen is None else 0
    if without:
        raise OffleashError(
            f"{without} of the {problems.height} problems of {where} name no verifier; "
            "choose one for all with --verifier NAME, for example --verifier math."
        )
    found = {}
    for row in problems.select("problem", "gold", "question", "details", "verifier").iter_rows():
        problem = problem_case(row[0], row[1], row[2], row[3])
        found[row[0]] = (problem, extraction.of(chosen or named(row[4])))
    return found


def fill_from_problem_set(problems: pl.DataFrame, fuller: pl.DataFrame, where: str) -> pl.DataFrame:
    """A run's problems with what a set of problems says of them: found by their text, else by their id."""
    known = ["gold", "verifier", "details", "question"]
    renamed = {column: f"{column} said" for column in known}
    by_text = fuller.filter(pl.col("hash").is_not_null()).unique("hash").select("hash", *known).rename(renamed)
    by_id = fuller.unique("problem").select("problem", *known).rename({column: f"{column} by id" for column in known})
    joined = problems.join(by_text, on="hash", how="left", maintain_order="left").join(
        by_id, on="problem", how="left", maintain_order="left"
    )
    found = joined.filter(pl.coalesce("gold said", "details said", "gold by id", "details by id").is_not_null()).height
    if found < problems.height:
        raise OffleashError(
            f"{problems.height - found} of the {problems.height} problems of {where} are not among the "
            f"{fuller.height} of --problems, neither by text nor by id."
        )
    filled = [pl.coalesce(f"{column} said", f"{column} by id", column).alias(column) for column in known]
    return joined.with_columns(filled).select(problems.columns)


def refuse_unreadable(judge: Judge, cases: dict[str, tuple[ProblemCase, Verifier]], where: str) -> None:
    """Stop before the first sample where a gold answer cannot be judged against: verdicts on it would be false."""
    faults = unreadable(judge, list(cases.values()))
    if not faults:
        return
    lines = [f"  problem {problem.id!r}: {why}" for problem, why in faults[:SHOWN]]
    more = [f"  and {len(faults) - SHOWN} more: offleash check lists them"] if len(faults) > SHOWN else []
    raise OffleashError(
        "\n".join([f"{len(faults)} of the {len(cases)} problems of {where} cannot be judged:", *lines, *more])
        + "\nTake gold answers from a set of problems with --problems, correct them, or choose another verifier."
    )


def unreadable(judge: Judge, pairs: Sequence[tuple[ProblemCase, Verifier]]) -> list[tuple[ProblemCase, str]]:
    groups: dict[str, tuple[Verifier, list[ProblemCase]]] = {}
    for problem, verifier in pairs:
        groups.setdefault(verifier.name, (verifier, []))[1].append(problem)
    return [fault for verifier, problems in groups.values() for fault in judge.unreadable(verifier, problems)]


def judge_texts(
    judge: Judge,
    pairs: Sequence[tuple[ProblemCase, Verifier]],
    texts: Sequence[str | None],
    truncated: Sequence[bool],
    opened: bool = False,
) -> list[tuple[Extraction, Judgement]]:
    """The extraction and the judgement of every text, in order.

    Every distinct text is read once, and every distinct answer to a problem decided once.
    """
    judge.forget()
    read: dict[tuple[tuple[str, ...], bool], dict[str, Extraction]] = {}
    answers: list[Extraction] = []
    decided: list[dict[str, Judgement]] = []
    waiting: dict[str, tuple[Verifier, dict[tuple[bytes, str], ProblemCase]]] = {}
    known: dict[int, dict[str, Judgement]] = {}
    for pair, text, cut in zip(pairs, texts, truncated, strict=True):
        steps = pair[1].steps
        memory = read.get((steps, cut))
        if memory is None:
            memory = read[steps, cut] = {}
        found = memory.get(text or "")
        if found is None:
            found = memory[text or ""] = extract(text or "", steps, cut, opened)
        answers.append(found)
        judged = known.get(id(pair))
        if judged is None:
            judged = known[id(pair)] = judge.known(pair[1], pair[0])
        decided.append(judged)
        if found.answer is not None and found.answer not in judged:
            group = waiting.setdefault(pair[1].name, (pair[1], {}))[1]
            group[pair[0].key, found.answer] = pair[0]
    for verifier, group in waiting.values():
        judge.decide(verifier, [(problem, answer) for (_, answer), problem in group.items()])
    return [
        (found, UNREAD if found.answer is None else judged[found.answer])
        for found, judged in zip(answers, decided, strict=True)
    ]
