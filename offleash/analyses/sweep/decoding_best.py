"""Each model at its own best decoding, for people and programs: on other problems, and on those that chose it."""

from collections.abc import Sequence

from offleash.analyses.sweep.best import Best, Cells
from offleash.analyses.sweep.runs import way
from offleash.analyses.sweep.tables import sign
from offleash.render.numbers import Json, number

SURE = {-1: "what is lost is not the decoding's doing alone", 1: "what is found is not the decoding's doing alone"}


def best_document(best: Best | None) -> Json | None:
    """The best decodings as JSON."""
    if best is None:
        return None
    sides = zip(("before", "after"), best.decoding, best.chosen, strict=True)
    return {
        "chosen": {
            side: {"temperature": how.temperature, "top_p": how.top_p, "share_of_halves": share}
            for side, how, share in sides
        },
        **_cells(best.fitted),
        "interval": {name: ends.pair() for name, ends in best.interval.items()},
        "in_sample": _cells(best.in_sample),
        "halvings": best.halvings,
    }


def best_words(best: Best, names: Sequence[str]) -> str:
    """What is left of the difference at the best decodings, why it may look worse than all, and the flattered end."""
    before, after = names
    (first, second), fitted, flattered, ends = best.decoding, best.fitted, best.in_sample, best.interval["NSCR"]
    return (
        f"Each at its own best decoding (chosen on half of the problems and valued on the other half, "
        f"{best.halvings} halvings), {after} loses {fitted.S:.1f} of the {fitted.P + fitted.S:.1f} problems that "
        f"{before} reaches and gains {fitted.E:.1f}: NSCR {fitted.value['NSCR']:+.3f} [{ends.low:+.3f}, "
        f"{ends.high:+.3f}]; {SURE.get(sign(ends), 'the two cannot be told apart so')}. This can be worse than at "
        f"every single decoding, since what is best on one half need not be on the other. Chosen and valued on the "
        f"same problems ({before} at {way(first)}, {after} at {way(second)}), the optimistic end for both, {before} "
        f"reaches {flattered.value['before']:.1%} and {after} {flattered.value['after']:.1%}: NSCR "
        f"{_signed(flattered)}."
    )


def _cells(one: Cells) -> Json:
    return {
        **{cell: getattr(one, cell) for cell in "PESO"},
        **{name: number(value) for name, value in one.value.items()},
    }


def _signed(one: Cells) -> str:
    return "-" if number(one.value["NSCR"]) is None else f"{one.value['NSCR']:+.3f}"
