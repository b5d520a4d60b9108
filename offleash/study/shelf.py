"""Shelf: the samples of two compared runs, found problem by problem; texts are read only when asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from offleash.study.compare import Comparison
from offleash.tables.run import Run

UNVERIFIED = "unverified"
_SAID = ("answer", "reason", "step")


@dataclass(frozen=True)
class Sample:
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
class Answered:
    """How often an answer was given; None: no answer was found."""

    answer: str | None
    verdict: str
    count: int


@dataclass(frozen=True)
class Shelf:
    """The samples of the runs before (0) and after (1) of a comparison, by row of its problems."""

    one: Comparison

    def run(self, r: int) -> Run:
        return (self.one.before, self.one.after)[r]

    def has_texts(self, r: int) -> bool:
        samples = self.run(r).samples
        return samples is not None and "text" in samples.collect_schema().names()

    def own(self, row: int, r: int) -> str:
        """The id that a run itself gives to a problem."""
        names, problem = self.one.counted.own[r], self.one.counted.problems["problem"][row]
        return str(names.filter(pl.col("problem") == problem)["own"][0])

    def answers(self, row: int, r: int) -> list[Answered]:
        """All answers of one problem, the most frequent first."""
        verdicts = self._verdicts([self.own(row, r)], r)
        if verdicts is None:
            return []
        counted = verdicts.group_by("answer", "verdict").agg(count=pl.len()).collect(engine="streaming")
        ordered = counted.sort("count", "verdict", "answer", descending=[True, False, False], nulls_last=True)
        return [Answered(*row) for row in ordered.select("answer", "verdict", "count").iter_rows()]

    def kinds(self, row: int, r: int) -> dict[str, int]:
        """How many samples of one problem have each verdict."""
        out: dict[str, int] = {}
        for one in self.answers(row, r):
            out[one.verdict] = out.get(one.verdict, 0) + one.count
        return out

    def samples(
        self, row: int, r: int, verdict: str | None = None, start: int = 0, size: int = 20, head: int = 4000
    ) -> list[Sample]:
        """Some samples of one problem in the order of their index, of one verdict or of all."""
        own = self.own(row, r)
        verdicts = self._verdicts([own], r)
        if verdicts is None:
            return []
        wanted = verdicts if verdict is None else verdicts.filter(pl.col("verdict") == verdict)
        page = wanted.sort("index").slice(start, size).collect(engine="streaming")
        return [sample for _, sample in self._written(page, r, head, 0)]

    def text(self, row: int, r: int, index: int, start: int, size: int) -> tuple[str, int] | None:
        """A part of the text of one sample, and the length of the whole; None where there is no such text."""
        samples = self.run(r).samples
        if samples is None or not self.has_texts(r):
            return None
        one = samples.filter((pl.col("problem") == self.own(row, r)) & (pl.col("index") == index))
        part = one.select(pl.col("text").str.slice(start, size), letters=pl.col("text").str.len_chars()).collect()
        return None if part.is_empty() or part["text"][0] is None else (str(part["text"][0]), int(part["letters"][0]))

    def picked(self, rows: Sequence[int], r: int, each: int, head: int, tail: int) -> dict[int, list[Sample]]:
        """`each` samples of every verdict of some problems, different answers first; one scan for all of them."""
        own = {self.own(row, r): row for row in rows}
        verdicts = self._verdicts(list(own), r)
        if verdicts is None:
            return {}
        place = pl.col("index").rank("ordinal").over("problem", "verdict", "answer").alias("place")
        ranked = verdicts.with_columns(place).sort("problem", "verdict", "place", "index")
        first = ranked.filter(pl.int_range(pl.len()).over("problem", "verdict") < each)
        out: dict[int, list[Sample]] = {row: [] for row in rows}
        for problem, sample in self._written(first.collect(), r, head, tail):
            out[own[problem]].append(sample)
        return out

    def answered(self, rows: Sequence[int], r: int) -> dict[int, list[Answered]]:
        """The answers of some problems, the most frequent first; one scan for all of them."""
        own = {self.own(row, r): row for row in rows}
        verdicts = self._verdicts(list(own), r)
        if verdicts is None:
            return {}
        counted = verdicts.group_by("problem", "answer", "verdict").agg(count=pl.len()).collect(engine="streaming")
        order = [False, True, False, False]
        ordered = counted.sort("problem", "count", "verdict", "answer", descending=order, nulls_last=True)
        out: dict[int, list[Answered]] = {row: [] for row in rows}
        for problem, answer, verdict, count in ordered.select("problem", "answer", "verdict", "count").iter_rows():
            out[own[problem]].append(Answered(answer, verdict, count))
        return out

    def _verdicts(self, own: list[str], r: int) -> pl.LazyFrame | None:
        verdicts = self.run(r).verdicts
        if verdicts is None:
            return None
        word = pl.col("verdict").cast(pl.String).fill_null(UNVERIFIED)
        near = verdicts.filter(pl.col("problem").is_in(own)).with_columns(word)
        known = near.collect_schema().names()
        lacking = [pl.lit(None, pl.String).alias(name) for name in _SAID if name not in known]
        return near.with_columns(lacking).select("problem", "index", "verdict", *_SAID)

    def _written(self, page: pl.DataFrame, r: int, head: int, tail: int) -> list[tuple[str, Sample]]:
        """The samples that stand on a page of verdicts, with both ends of their texts."""
        samples = self.run(r).samples
        columns = {"finish": pl.String(), "tokens": pl.UInt32(), "text": pl.String()}
        if samples is None:
            told = page.with_columns(pl.lit(None, kind).alias(name) for name, kind in columns.items())
        else:
            known = samples.collect_schema().names()
            read = [pl.col(n) if n in known else pl.lit(None, kind).alias(n) for n, kind in columns.items()]
            near = samples.filter(pl.col("problem").is_in(page["problem"].unique().to_list()))
            found = near.join(page.lazy().select("problem", "index"), on=["problem", "index"], how="semi")
            told = page.join(
                found.select("problem", "index", *read).collect(engine="streaming"),
                on=["problem", "index"],
                how="left",
                maintain_order="left",
            )
        return [(str(one["problem"]), _sample(one, head, tail)) for one in told.iter_rows(named=True)]


def _sample(one: dict[str, object], head: int, tail: int) -> Sample:
    text = None if one["text"] is None else str(one["text"])
    whole = text is None or len(text) <= head + tail
    return Sample(
        index=int(str(one["index"])),
        verdict=str(one["verdict"]),
        answer=_text(one["answer"]),
        reason=_text(one["reason"]),
        step=_text(one["step"]),
        finish=_text(one["finish"]),
        tokens=None if one["tokens"] is None else int(str(one["tokens"])),
        head=text if text is None or whole else text[:head],
        tail="" if text is None or whole else text[len(text) - tail :],
        letters=0 if text is None else len(text),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
