"""The samples of two compared runs by problem, and as JSON for the page and the viewer; texts are read on demand.

A run may have millions of samples whose texts do not fit into memory. Verdicts and answers are scanned for some
problems at a time, texts are looked up for the few samples that are shown, and of each text only both ends are kept.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import polars as pl

from offleash.comparing.compare import Comparison
from offleash.data.run import Run
from offleash.data.tables import SAMPLES, VERDICT
from offleash.data.verdict import Verdict
from offleash.render.json import Json, encode

UNVERIFIED_WORD = "unverified"  # the word for a null verdict: drawn, and not yet judged
VERDICTS_AT_ONCE = 1_000_000  # verdicts in memory at a time
CACHED_PROBLEMS = 8  # problems whose verdicts stay in memory while a reader turns their pages
_KEY = ["problem", "index"]  # identifies a sample within a run
_VERDICT_COLUMNS = ["verdict", "answer", "reason", "step"]  # columns of verdicts
_ANSWER_KEY = ["problem", "answer", "verdict"]
_SAMPLE_COLUMNS = ["finish", "tokens", "text"]  # columns of samples


@dataclass(frozen=True)
class SampleView:
    """One sample as it was written: the beginning of its text and its end; `letters` is the length of the whole."""

    index: int
    verdict: str
    answer: str | None
    reason: str | None
    step: str | None
    finish: str | None
    tokens: int | None
    head: str | None  # None: the run keeps no texts
    tail: str  # empty where the head is the whole text
    letters: int


@dataclass(frozen=True)
class AnswerCount:
    """How often an answer was given; None: no answer was found."""

    answer: str | None
    verdict: str
    count: int


@dataclass(frozen=True)
class RunAnswers:
    """The answers and some samples of one run on one problem."""

    kinds: dict[str, int]  # how many samples have each verdict
    different: int  # answers, of which the most frequent follow
    answers: list[AnswerCount]
    samples: list[SampleView]  # some of each verdict, different answers first


@dataclass(frozen=True)
class DetailLimits:
    """How much of a problem to show."""

    each: int  # samples of each verdict
    head: int  # characters from the beginning of a text
    tail: int  # characters from its end, where it is longer than both
    answers: int  # the most frequent ones, with room for rare correct ones


@dataclass(frozen=True)
class SampleStore:
    """The samples of the runs before (0) and after (1) of a comparison, by row of its problems."""

    comparison: Comparison

    def run(self, r: int) -> Run:
        """The run before (0) or after (1)."""
        return (self.comparison.before, self.comparison.after)[r]

    def own(self, row: int, r: int) -> str:
        """The id that a run itself gives to a problem."""
        return self._own_ids[r][row]

    def answers(self, rows: Sequence[int], r: int, limits: DetailLimits) -> dict[int, RunAnswers]:
        """The answers of run `r` to some problems, by row; its files are scanned once for all of them."""
        if self.run(r).verdicts is None:
            return {row: RunAnswers({}, 0, [], []) for row in rows}
        return {
            row: answers for batch in self._batches(rows, r) for row, answers in self._batch_answers(batch, r, limits)
        }

    def page(
        self, row: int, r: int, verdict: str | None, start: int, size: int, head: int, tail: int
    ) -> tuple[list[SampleView], int]:
        """Some samples of one problem in the order of their index, and how many there are, of one verdict or of all."""
        if self.run(r).verdicts is None:
            return [], 0
        # verdicts of one problem fit into memory; texts are then fetched for this page alone
        problem_rows = self._verdicts_of_problem(self.own(row, r), r)
        wanted = problem_rows if verdict is None else problem_rows.filter(_verdict_is(verdict))
        return [sample for _, sample in self._with_texts(wanted.slice(start, size), r, head, tail)], wanted.height

    def text(self, row: int, r: int, index: int, start: int, size: int) -> tuple[str, int] | None:
        """A part of the text of one sample, and the length of the whole; None where there is no such text."""
        sample = self._samples(r).filter((pl.col("problem") == self.own(row, r)) & (pl.col("index") == index))
        text = pl.col("text")
        part = sample.select(text.str.slice(start, size), letters=text.str.len_chars()).collect()
        return None if part.is_empty() or part["text"][0] is None else (part["text"][0], part["letters"][0])

    @cached_property
    def _own_ids(self) -> list[list[str]]:
        """For each run, its own ids of the problems in the order of the rows."""
        problems = self.comparison.counted.problems["problem"].to_list()
        named = [dict(names.select("problem", "own").iter_rows()) for names in self.comparison.counted.own]
        return [[names[problem] for problem in problems] for names in named]

    @cached_property
    def _verdicts_of_problem(self) -> Callable[[str, int], pl.DataFrame]:
        """The verdicts of one problem by index; a reader turns pages, so those of the last few problems are cached."""
        return lru_cache(maxsize=CACHED_PROBLEMS)(
            lambda own, r: self._verdicts(r).filter(pl.col("problem") == own).collect().sort("index")
        )

    def _batches(self, rows: Sequence[int], r: int) -> Iterator[list[int]]:
        """The rows in batches whose verdicts fit into memory."""
        tally = self.comparison.counted.tally
        batch: list[int] = []
        verdicts = 0
        for row in rows:
            batch.append(row)
            # the tally knows the size of each problem, so no file is opened to plan the batches
            verdicts += int(tally.drawn_PR[row, r] + tally.unverified_PR[row, r])
            if verdicts >= VERDICTS_AT_ONCE:
                yield batch
                batch, verdicts = [], 0
        if batch:
            yield batch

    def _batch_answers(self, rows: list[int], r: int, limits: DetailLimits) -> Iterator[tuple[int, RunAnswers]]:
        """The answers to one batch: counts by verdict, the most frequent answers, some samples of each verdict."""
        own = pl.Series("problem", [self.own(row, r) for row in rows])
        problem_rows = (
            self._verdicts(r).filter(_equals_any(own)).collect()
            if len(rows) > 1
            else self._verdicts_of_problem(own[0], r)
        )
        # all that is shown follows from the distinct answers, so samples are grouped once and only then ranked
        answer_groups = problem_rows.group_by(_ANSWER_KEY).agg(pl.col("index").min(), count=pl.len())
        out = {problem: RunAnswers({}, 0, [], []) for problem in own}
        for problem, answer, verdict, count in _most_frequent(answer_groups, limits.answers).iter_rows():
            out[problem].answers.append(AnswerCount(answer, verdict, count))
        page = _different_first(problem_rows, answer_groups, limits.each).join(
            problem_rows, on=_KEY, how="left", maintain_order="left"
        )
        for problem, sample in self._with_texts(page, r, limits.head, limits.tail):
            out[problem].samples.append(sample)
        for problem, verdict, count in _verdict_counts(answer_groups).iter_rows():
            out[problem].kinds[verdict] = count
        answer_counts = dict(answer_groups.group_by("problem").len().iter_rows())
        for row, problem in zip(rows, own, strict=True):
            partial = out[problem]
            yield row, replace(partial, different=answer_counts.get(problem, 0))

    def _verdicts(self, r: int) -> pl.LazyFrame:
        """The columns of a run's verdicts that are shown, as a lazy scan."""
        verdicts = self.run(r).verdicts
        assert verdicts is not None, "a run of counts has no samples to show"
        return verdicts.select(*_KEY, *_VERDICT_COLUMNS)

    def _samples(self, r: int) -> pl.LazyFrame:
        """The facts on a run's samples, with nulls for what it does not keep."""
        samples = self.run(r).samples
        if samples is None:
            return pl.LazyFrame(schema={name: SAMPLES[name] for name in (*_KEY, *_SAMPLE_COLUMNS)})
        known = samples.collect_schema().names()
        # logs differ in what they record; a missing column is null, so that all runs have the same schema
        missing = [pl.lit(None, SAMPLES[name]).alias(name) for name in _SAMPLE_COLUMNS if name not in known]
        return samples.with_columns(missing).select(*_KEY, *_SAMPLE_COLUMNS)

    def _with_texts(self, page: pl.DataFrame, r: int, head: int, tail: int) -> list[tuple[str, SampleView]]:
        """The samples of a page of verdicts, in its order, with both ends of their texts."""
        if page.is_empty():
            return []
        text, letters = pl.col("text"), pl.col("text").str.len_chars()
        fits_whole = letters <= head + tail  # then the text is kept in one piece, and the tail stays empty
        ends = self._samples(r).select(
            *_KEY,
            "finish",
            "tokens",
            head=pl.when(fits_whole).then(text).otherwise(text.str.head(head)),
            tail=pl.when(fits_whole).then(pl.lit("")).otherwise(text.str.tail(tail)),
            letters=letters,
        )
        samples = page.join(_rows_of_page(ends, page), on=_KEY, how="left", maintain_order="left")
        tail_columns = [pl.col("tail").fill_null(""), pl.col("letters").fill_null(0)]
        full = samples.select(*_KEY, _verdict_text(), *_VERDICT_COLUMNS[1:], "finish", "tokens", "head", *tail_columns)
        return [(problem, SampleView(*rest)) for problem, *rest in full.iter_rows()]


def _rows_of_page(frame: pl.LazyFrame, page: pl.DataFrame) -> pl.DataFrame:
    """The rows of a frame whose problem and index stand on a page.

    A filter lets the scan leave out files and texts, a join does not: so first a filter that may let more through.
    Of one problem it lets through just what is wanted; of several it may be much, so it is not to be held at once.
    """
    problem_rows = frame.filter(*(_equals_any(page[name].unique()) for name in _KEY))
    wanted = problem_rows.join(page.lazy().select(_KEY), on=_KEY, how="semi")
    return wanted.collect(engine="streaming" if page["problem"].n_unique() > 1 else "in-memory")


def _equals_any(values: pl.Series) -> pl.Expr:
    """Whether a column has one of the values; one alone is compared, which lets a scan skip the most."""
    return pl.col(values.name) == values[0] if values.len() == 1 else pl.col(values.name).is_in(values.implode())


def _verdict_is(word: str) -> pl.Expr:
    """Whether a sample has a verdict; the word for none is UNVERIFIED_WORD."""
    return pl.col("verdict").is_null() if word == UNVERIFIED_WORD else pl.col("verdict") == pl.lit(word, VERDICT)


def _verdict_text() -> pl.Expr:
    """The verdict as text; a sample that is not yet judged has a null verdict and gets a word of its own."""
    return pl.col("verdict").cast(pl.String).fill_null(UNVERIFIED_WORD)


def _verdict_counts(answer_groups: pl.DataFrame) -> pl.DataFrame:
    """How many samples of each problem have each verdict, in the usual order of verdicts."""
    verdict_counts = answer_groups.group_by("problem", "verdict").agg(pl.col("count").sum())
    return verdict_counts.sort("verdict", nulls_last=True).select("problem", _verdict_text(), "count")


def _most_frequent(answer_groups: pl.DataFrame, max_answers: int) -> pl.DataFrame:
    """The answers to list, by frequency; half of the places are for correct ones, which may be rare among many."""
    # ties are broken by verdict and answer, so that the list does not depend on the order of the files
    order = {"problem": False, "count": True, "verdict": False, "answer": False}
    ordered = answer_groups.sort(*order, descending=list(order.values()), nulls_last=True)
    is_correct = pl.col("verdict").eq_missing(pl.lit(Verdict.CORRECT.value, VERDICT))
    first = is_correct & (is_correct.cast(pl.Int64).cum_sum().over("problem") <= (max_answers + 1) // 2)
    most_frequent = ordered.with_columns(later=~first).sort("problem", "later", maintain_order=True)
    listed = most_frequent.group_by("problem", maintain_order=True).head(max_answers).drop("later")
    again = listed.sort(*order, descending=list(order.values()), nulls_last=True)
    return again.select("problem", "answer", _verdict_text(), "count")


def _different_first(problem_rows: pl.DataFrame, answer_groups: pl.DataFrame, each: int) -> pl.DataFrame:
    """The samples to look at: of every verdict first one of each answer, by index, then a second of each."""
    # only where distinct answers do not fill the places are further samples of the same answer needed
    short_groups = answer_groups.group_by("problem", "verdict").len().filter(pl.col("len") < each)
    rank = pl.col("index").rank("ordinal").over(_ANSWER_KEY)
    more = problem_rows.join(short_groups, on=["problem", "verdict"], how="semi", nulls_equal=True).with_columns(
        rank=rank
    )
    every = pl.concat(
        [
            answer_groups.select("problem", "verdict", "index", rank=pl.lit(1, more.schema["rank"])),
            more.filter(pl.col("rank").is_between(2, each)).select("problem", "verdict", "index", "rank"),
        ]
    )
    ordered = every.sort("problem", "verdict", "rank", "index", nulls_last=True)
    return ordered.group_by("problem", "verdict", maintain_order=True).head(each).select(_KEY)


# JSON documents: a problem's question, its answers and some of its samples, with long texts cut.


SAMPLES_PER_VERDICT, ANSWERS = 3, 50  # samples of each verdict, answers
HEAD_CHARACTERS, TAIL_CHARACTERS = 3_500, 500  # characters of the two ends of a text: the answer is mostly at the end
QUESTION, ANSWER = 20_000, 500  # characters of a question or a gold answer; of an answer or a reason
RUNS = (0, 1)  # before, after
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def problem_document(store: SampleStore, row: int) -> Json:
    """The document of one problem: question, gold answer, and both runs with answers and samples."""
    return problem_documents(store, [row])[row]


def problem_documents(
    store: SampleStore,
    rows: Sequence[int],
    each: int = SAMPLES_PER_VERDICT,
    head: int = HEAD_CHARACTERS,
    tail: int = TAIL_CHARACTERS,
    answers: int = ANSWERS,
) -> dict[int, Json]:
    """The documents of some problems, by row; each run is scanned once for all of them."""
    answers_R = [store.answers(rows, r, DetailLimits(each, head, tail, answers)) for r in RUNS]
    return {
        row: _problem_fields(store, row) | {"runs": [_run_document(store, row, r, answers_R[r][row]) for r in RUNS]}
        for row in rows
    }


def samples_document(store: SampleStore, row: int, r: int, verdict: str | None, start: int, size: int) -> Json:
    """Some samples of a problem in the order of their index, and how many there are."""
    page, total = store.page(row, r, verdict, start, size, HEAD_CHARACTERS, TAIL_CHARACTERS)
    return {"samples": [_sample_document(sample) for sample in page], "total": total}


def text_document(store: SampleStore, row: int, r: int, index: int, start: int, size: int) -> Json | None:
    """A part of the text of one sample; None where there is no such text."""
    part = store.text(row, r, index, start, size)
    return None if part is None else {"text": part[0], "start": start, "letters": part[1]}


def _problem_fields(store: SampleStore, row: int) -> Json:
    """Question and gold answer, clipped; the full lengths say how much was cut."""
    columns = store.comparison.counted.problems.select("problem", "benchmark", "question", "gold").row(row)
    problem, benchmark, question, gold = columns
    return {
        "row": row,
        "problem": problem,
        "benchmark": benchmark or "",
        "question": _clipped(question, QUESTION),
        "question_letters": len(question or ""),
        "gold": _clipped(gold, QUESTION),
        "gold_letters": len(gold or ""),
    }


def _run_document(store: SampleStore, row: int, r: int, run_answers: RunAnswers) -> Json:
    """What a run answered to a problem."""
    tally = store.comparison.counted.tally
    return {
        "name": store.run(r).name,
        "drawn": int(tally.drawn_PR[row, r]),
        "correct": int(tally.correct_PR[row, r]),
        "kinds": run_answers.kinds,
        "answers": [encode(replace(answer, answer=_clipped(answer.answer, ANSWER))) for answer in run_answers.answers],
        "answers_left_out": run_answers.different - len(run_answers.answers),
        "texts": any(sample.head is not None for sample in run_answers.samples),
        "samples": [_sample_document(sample) for sample in run_answers.samples],
    }


def _sample_document(sample: SampleView) -> Json:
    """One sample: both ends of its text, its verdict and where that came from."""
    shortened = replace(sample, answer=_clipped(sample.answer, ANSWER), reason=_clipped(sample.reason, ANSWER))
    document: Json = encode(shortened)
    return document


def _clipped(text: str | None, max_characters: int) -> str | None:
    """The beginning of a text; an ellipsis says that there is more."""
    return text if text is None or len(text) <= max_characters else text[:max_characters] + ELLIPSIS
