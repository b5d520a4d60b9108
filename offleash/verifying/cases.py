"""Problems paired with their verifiers, refused early if unreadable, and texts extracted and judged in bulk.

Drawing, training and certificates call these functions too: every distinct text is parsed once per batch.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from offleash.data.tables import as_problems
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.extraction.extract import Extraction, extract
from offleash.verifiers.own.bind import CallOptions, OwnProblem, case_details
from offleash.verifiers.own.decide import packed
from offleash.verifiers.registry import chosen_verifier
from offleash.verifiers.registry import verifier as named
from offleash.verifiers.verifier import Judgement, Verifier
from offleash.verifying.judge import Judge, ProblemCase, problem_case

FAULTS_SHOWN = 5  # problems listed in an error
UNREAD = Judgement(Verdict.UNREAD)
CasesByProblem = Mapping[str, tuple[ProblemCase, Verifier]]


@dataclass(frozen=True)
class ExtractionOptions:
    """Options of extraction. They change verdicts, so they are part of a verifier's name."""

    last_number: bool = False  # also take a text's last number for its answer
    opened: bool = False  # the prompt ends inside a block of reasoning, so a text without </think> is unfinished
    extracted: bool = False  # texts are answers that another tool extracted: they are judged as they are
    call: CallOptions = field(default_factory=CallOptions)  # of a user's own function, which gets whole texts

    def of(self, verifier: Verifier) -> Verifier:
        """The verifier under these options: its steps, and the name that its verdicts are stored under."""
        verifier = self.call.of(verifier)
        if not (self.last_number or self.opened or self.extracted):
            return verifier
        names = ("last_number", "opened", "extracted")
        suffix = "".join(f".{name}" for name in names if getattr(self, name))
        steps = ("whole",) if self.extracted else verifier.steps
        if self.last_number and "last_number" not in steps:
            steps = (*steps, "last_number")  # last: any other step that finds an answer is more trustworthy
        return replace(verifier, name=verifier.name + suffix, steps=steps)


def before_drawing(extraction: ExtractionOptions) -> ExtractionOptions:
    """The options for a check of problems whose samples are still to be drawn."""
    return replace(extraction, call=replace(extraction.call, not_yet_drawn=True))


def problem_cases(
    problems: pl.DataFrame, verifier_name: str | None, extraction: ExtractionOptions, where: str
) -> dict[str, tuple[ProblemCase, Verifier]]:
    """Every problem of a table with its verifier, by problem id.

    Args:
        problems: a table of PROBLEMS.
        verifier_name: the verifier of all problems; None: each problem's own, and an error where one names none.
        extraction: options that change the verifiers' steps and names.
        where: what the problems belong to, for the error message.
    """
    chosen = chosen_verifier(verifier_name) if verifier_name else None
    without_verifier = problems.filter(pl.col("verifier").is_null()).height if chosen is None else 0
    if without_verifier:
        raise OffleashError(
            f"{without_verifier} of the {problems.height} problems of {where} do not name a verifier. "
            "Choose one for all with --verifier NAME, for example --verifier math."
        )
    cases = {}
    verifier_by_name: dict[str, Verifier] = {}
    for row in as_problems(problems).iter_rows(named=True):
        name = verifier_name or row["verifier"]
        if name not in verifier_by_name:
            verifier_by_name[name] = extraction.of(chosen or named(name))
        cases[row["problem"]] = (case_of_row(row, verifier_by_name[name]), verifier_by_name[name])
    return cases


def case_of_row(row: Mapping[str, Any], verifier: Verifier) -> ProblemCase:
    """What a row of PROBLEMS gives its verifier; a user's own function also gets the columns that it takes."""
    problem = problem_case(row["problem"], row["gold"], row["question"], row["details"])
    if verifier.own is None:
        return problem
    columns = json.loads(row["columns"]) if row["columns"] else {}
    prompt = row["prompt"] or row["question"] or ""
    return own_case(problem, verifier, prompt, row["benchmark"], columns)


def own_case(
    problem: ProblemCase, verifier: Verifier, prompt: str, benchmark: str | None, columns: Mapping[str, object]
) -> ProblemCase:
    """A problem as a user's own function gets it: arguments by parameter, hashed with all that verdicts depend on."""
    assert verifier.own is not None, "only users' functions take arguments"
    own_problem = OwnProblem(problem.id, problem.gold, problem.question, prompt, benchmark, problem.details, columns)
    details, key = case_details(verifier.own, own_problem)
    return replace(problem, details=details, key=key)


def fill_from_problem_set(problems: pl.DataFrame, problem_set: pl.DataFrame, where: str) -> pl.DataFrame:
    """A run's problems with gold answers, verifiers, details and questions of a problem set (`--problems`).

    Problems are matched by the hash of their text, else by id: logs often number problems by themselves, so the text is
    the safer key. What the set does not say stays as the run has it. A run with a problem that matches nothing is an
    error, because half of it would be judged by other rules than the rest.
    """
    columns = ["gold", "verifier", "details", "question", "columns"]
    # A text that several problems of the set share says nothing: their ids do.
    unique_hash = pl.col("hash").is_not_null() & (pl.len().over("hash") == 1)
    by_text = problem_set.filter(unique_hash).select("hash", *columns)
    by_id = problem_set.unique("problem").select("problem", *columns)
    joined_problems = problems.join(
        by_text.rename({column: f"{column} by text" for column in columns}),
        on="hash",
        how="left",
        maintain_order="left",
    ).join(
        by_id.rename({column: f"{column} by id" for column in columns}),
        on="problem",
        how="left",
        maintain_order="left",
    )
    known = pl.coalesce("gold by text", "details by text", "gold by id", "details by id").is_not_null()
    missing = joined_problems.filter(~known).height
    if missing:
        raise OffleashError(
            f"{missing} of the {problems.height} problems of {where} are not among the {problem_set.height} of "
            "--problems, neither by text nor by id. Give the problem set that the run was drawn from."
        )
    values = [pl.coalesce(f"{column} by text", f"{column} by id", column).alias(column) for column in columns]
    return joined_problems.with_columns(values).select(problems.columns)


def refuse_unreadable(judge: Judge, cases: CasesByProblem, where: str) -> None:
    """Stop before the first sample if a gold answer cannot be judged against: every verdict on it would be false."""
    faults = unreadable_golds(judge, list(cases.values()))
    if not faults:
        return
    lines = [f"  problem {problem.id!r}: {reason}" for problem, reason in faults[:FAULTS_SHOWN]]
    more_lines = (
        [f"  and {len(faults) - FAULTS_SHOWN} more: offleash check lists them"] if len(faults) > FAULTS_SHOWN else []
    )
    raise OffleashError(
        "\n".join([f"{len(faults)} of the {len(cases)} problems of {where} cannot be judged:", *lines, *more_lines])
        + "\nTake gold answers from a problem set with --problems, correct them, or choose another verifier."
    )


def unreadable_golds(judge: Judge, pairs: Sequence[tuple[ProblemCase, Verifier]]) -> list[tuple[ProblemCase, str]]:
    """Problems whose gold answer their verifier cannot read, with the reason; one call per verifier."""
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

    Every distinct text is read once, and every distinct answer to a problem is decided once.

    Args:
        judge: decides the answers, and remembers them for the next batch.
        pairs: the problem and the verifier of each text. Pass the same tuple object for texts of the same problem, as
            `problem_cases` returns it: lookups go by its identity, which is much cheaper than hashing details.
        texts: samples; None counts as empty.
        truncated: whether each text was cut off at its token limit.
        opened: whether the texts begin inside a block of reasoning.

    Returns:
        Pairs in the order of `texts`; where no answer was found the judgement is `unread`.
    """
    judge.forget()
    extracted: dict[tuple[tuple[str, ...], bool], dict[str, Extraction]] = {}
    extractions: list[Extraction] = []
    answers: list[str | None] = []  # what is judged: the extracted answer, or the whole text by a user's own function
    # For each text, the judge's table of the answers to its problem: filled by judge.decide below, read at the end.
    tables: list[dict[str, Judgement]] = []
    table_of_pair: dict[int, dict[str, Judgement]] = {}
    undecided: dict[str, tuple[Verifier, dict[tuple[bytes, str], ProblemCase]]] = {}
    for pair, text, is_truncated in zip(pairs, texts, truncated, strict=True):
        problem, verifier = pair
        by_text = extracted.get((verifier.steps, is_truncated))
        if by_text is None:
            by_text = extracted[verifier.steps, is_truncated] = {}
        extraction = by_text.get(text or "")
        if extraction is None:
            extraction = by_text[text or ""] = extract(text or "", verifier.steps, is_truncated, opened)
        extractions.append(extraction)
        answer = extraction.answer if verifier.own is None else packed(text or "", extraction.answer)
        answers.append(answer)
        table = table_of_pair.get(id(pair))
        if table is None:
            table = table_of_pair[id(pair)] = judge.known(verifier, problem)
        tables.append(table)
        if answer is not None and answer not in table:
            group = undecided.setdefault(verifier.name, (verifier, {}))[1]
            group[problem.key, answer] = problem
    for verifier, group in undecided.values():
        judge.decide(verifier, [(problem, answer) for (_, answer), problem in group.items()])
    return [
        (extraction, UNREAD if answer is None else table[answer])
        for extraction, answer, table in zip(extractions, answers, tables, strict=True)
    ]
