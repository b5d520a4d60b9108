"""A study of two models: what it may cost, and what it came to, for people and programs."""

from pathlib import Path

from offleash.drawing.report import drawn_document
from offleash.render.numbers import many
from offleash.reporting.comparison import document
from offleash.samplers.sampler import decoding_text
from offleash.studies import Cost, Studied, TwoModels


def cost_text(asked: TwoModels, cost: Cost) -> str:
    """What a study may cost, before anything is loaded."""
    until = (
        f"{many(cost.least, 'sample')} if all were correct, {cost.most:,} if none were: "
        f"a problem stops at its {cost.until}-th success"
        if cost.until
        else many(cost.most, "sample")
    )
    return (
        f"Study of {asked.models[0]} and {asked.models[1]} on {many(cost.problems, 'problem')}, k = {cost.k:,}, "
        f"{decoding_text(asked.decoding)}.\n  Cost: {until}; at most {cost.most * cost.tokens:,} tokens."
    )


def studied_document(one: Studied, page: Path | None = None) -> dict[str, object]:
    """The JSON of `compare`, with what was drawn for it; without the comparison while samples are missing."""
    found = document([one.comparison]) if one.comparison is not None else {"schema": 1}
    drawn = [drawn_document(run) for run in one.drawn]
    return {**found, "drawn": drawn, "folder": str(one.folder), "report": None if page is None else str(page)}
