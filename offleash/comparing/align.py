"""Aligning runs: the same problem in each, and the same decoding.

A problem is recognised by what the tool says it is, by its content or by its id, in this order (`match`). What a model
reaches depends on how it is sampled, so two runs that are known to differ in that are refused.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from offleash.data.content import CONTENT, HASHED, content_hashes, contents_agree, fields_differ, with_content
from offleash.data.run import GOLD_GUESSED, Run
from offleash.data.tables import Note, question_hash
from offleash.errors import OffleashError, unknown

FIELDS = (*CONTENT, "pictures")  # what keeps two problems apart
MAX_PAIRS = 1_000_000  # of problems with equal keys: a sentence that thousands of documents share identifies none
CHARACTERS_SHOWN = 60  # characters of a text in a message
# What helps where no problem is common, by the reason.
NO_ID_DECIDES = "no id decides"
NEXT_STEPS = {
    "a different text": " If only the prompt templates differ, --map question= ignores them, so that ids decide.",
    NO_ID_DECIDES: " If the ids are sample ids, --map problem= treats equal texts as samples of one problem.",
    "a different gold answer": " If that column does not hold golds, --map gold= ignores it.",
}
UNMATCHED = "problems_unmatched"  # the code of a warning


@dataclass(frozen=True)
class Alignment:
    """Problems that all runs have, and for each run its own name of them."""

    problems: pl.DataFrame  # PROBLEMS of the first run, filled from the others
    own: tuple[pl.DataFrame, ...]  # for each run: own (its id), problem (the first run's id)
    left_out: tuple[int, ...]  # for each run: problems that some other run lacks
    notes: tuple[Note, ...] = ()  # what could not be matched, and why


def match(runs: Sequence[Run]) -> Alignment:
    """The problems common to all runs.

    Two problems are the same where, in this order and each only where one candidate is left on both sides,

    1. the tool's own name of the content (lm-eval's doc_hash) is equal, in the same benchmark or in any; of documents
       that a task holds several times, first those of equal ids: another number of GPUs writes them in another order;
    2. their content (data/content.py) is equal in every field;
    3. their ids are equal and no field that both have differs;
    4. their texts are equal and no other field that both have differs.

    Raises:
        OffleashError: no problem is common.
    """
    tables = [_with_contents(run) for run in runs]
    first = runs[0].problems.sort("problem")  # so that nothing depends on the order of a file
    # every run is matched with the first, whose ids name the problems from here on
    own, notes = [first.select(own="problem", problem="problem")], []
    for run, table in zip(runs[1:], tables[1:], strict=True):
        pairs, pair_notes = _pair(tables[0], table, runs[0].name, run.name)
        own.append(pairs)
        notes += pair_notes
    common = own[0]["problem"]
    for other in own[1:]:
        common = common.filter(common.is_in(other["problem"].implode()))
    if not common.len():
        # of several runs, name the one that shares nothing with the first, where there is one
        alone = next((run for run, pairs in zip(runs[1:], own[1:], strict=True) if pairs.is_empty()), None)
        raise _nothing_in_common(runs if alone is None else [runs[0], alone], notes)
    kept = [frame.filter(pl.col("problem").is_in(common.implode())) for frame in own]
    problems = _fill_missing(first.filter(pl.col("problem").is_in(common.implode())), runs, kept)
    left_out = tuple(run.problems.height - common.len() for run in runs)
    return Alignment(problems, tuple(kept), left_out, tuple(notes))


def _with_contents(run: Run) -> pl.DataFrame:
    """A run's problems in the order of their ids, with the columns by which they are matched."""
    problems = run.problems.sort("problem")
    # Problems that offleash drew keep choices in their details; a log's reader has made the hashes already.
    is_unhashed = problems["contents"].is_null() & problems["details"].is_not_null()
    if is_unhashed.any():
        choice_hashes = [content_hashes(choices=_choices(text)) for text in problems["details"].filter(is_unhashed)]
        contents = problems["contents"].to_list()
        for row, value in zip(is_unhashed.arg_true().to_list(), choice_hashes, strict=True):
            contents[row] = value
        problems = problems.with_columns(contents=pl.Series(contents, dtype=pl.String))
    # Of our own problems the images themselves are known. No log has them in this form, so only two draws compare them.
    drawn = [None if images is None else question_hash("\n".join(images)) for images in problems["images"].to_list()]
    with_contents = with_content(problems).with_columns(
        pictures=pl.Series(drawn, dtype=pl.String),
        guessed=pl.lit(GOLD_GUESSED in run.facts),
        # Where a log uses one id for several problems, which of them is the first depends on the order of its rows.
        id=pl.col("problem").str.replace(r"#\d+$", ""),
        document=pl.col("identity").str.replace(r"#\d+$", ""),  # without the number of its occurrence
    )
    return with_contents.select("problem", "id", "benchmark", "identity", "document", "question", "guessed", *FIELDS)


def _choices(details: str) -> object:
    try:
        document = json.loads(details)
    except ValueError:
        return None
    return document.get("choices") if isinstance(document, dict) else None


def _pair(left: pl.DataFrame, right: pl.DataFrame, before: str, after: str) -> tuple[pl.DataFrame, list[Note]]:
    """Which problem of another run (own) is which of the first, and notes on those that look alike but are not."""
    pairs = pl.DataFrame(schema={"problem": pl.String, "own": pl.String})
    same = contents_agree() & ~fields_differ("pictures")
    for keys, condition in (
        (["benchmark", "document", "id"], pl.lit(True)),
        (["benchmark", "identity"], pl.lit(True)),
        (["identity"], pl.lit(True)),
        (["benchmark", "id", *FIELDS], pl.lit(True)),
        (["id", *FIELDS], pl.lit(True)),
        (["benchmark", *FIELDS], pl.col("hash").is_not_null()),
        ([*FIELDS], pl.col("hash").is_not_null()),
        (["problem"], same),
        (["id"], same),
        (["hash"], same),
        (["hash", "benchmark"], same),
    ):
        if all(run[_needed(keys)].null_count() < run.height for run in (left, right)):
            pairs = pl.concat([pairs, _mutual_matches(_unpaired(left, right, pairs, keys), condition)])
        if pairs.height == min(left.height, right.height):  # one run has no problem left to look for
            return pairs.select("own", "problem"), []
    by_id = _unpaired(left, right, pairs, ["problem"])
    _refuse_guessed_golds(by_id, left, right, before, after)
    notes = _unmatched_notes(left, right, pairs, before, after)
    return pairs.select("own", "problem"), notes


def _refuse_guessed_golds(
    by_id: pl.DataFrame, left: pl.DataFrame, right: pl.DataFrame, before: str, after: str
) -> None:
    """Equal ids and texts with different golds, where the golds may be the model's answers.

    Problems whose answers happen to agree would be compared and the others not: a selection by the result.
    """
    rest = [name for name in FIELDS if name != "gold_key"]
    different_contents = by_id.filter(
        fields_differ("gold_key"),
        pl.col("guessed") | pl.col("guessed_other"),
        ~pl.any_horizontal(fields_differ(name) for name in rest),
    )
    if different_contents.height:
        row = different_contents.row(0, named=True)
        raise OffleashError(
            f"Column answer differs between {before!r} and {after!r} for {different_contents.height} problems with "
            "equal ids and "
            f"texts (first: {_texts(different_contents, left, right)}, {_shortened(row['gold_key'])} and "
            f"{_shortened(row['gold_key_other'])}). Say what it holds: --map answer=answer if the model's answers, "
            "--map gold=answer if the golds."
        )


def _needed(keys: list[str]) -> str:
    """The column without which a problem cannot be matched by these: a missing value equals no other."""
    return next((name for name in ("identity", "document") if name in keys), "hash" if keys[0] == "hash" else "problem")


def _unpaired(left: pl.DataFrame, right: pl.DataFrame, pairs: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Candidates: problems of both runs that have no partner yet and agree in these columns."""
    known = pl.col(_needed(keys)).is_not_null()
    left_rows = left.drop("question").join(pairs, on="problem", how="anti").filter(known)
    other = right.drop("question").join(pairs, left_on="problem", right_on="own", how="anti").filter(known)
    sizes = left_rows.group_by(keys).len().join(other.group_by(keys).len(), on=keys, nulls_equal=True)
    frequent_keys = sizes.filter(pl.col("len").cast(pl.Int64) * pl.col("len_right") > MAX_PAIRS)
    left_rows = left_rows.join(frequent_keys, on=keys, how="anti", nulls_equal=True)
    renamed = other.rename({name: f"{name}_other" for name in other.columns})
    theirs = [f"{name}_other" for name in keys]
    return left_rows.join(renamed, left_on=keys, right_on=theirs, nulls_equal=True, coalesce=False)


def _mutual_matches(candidates: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """The candidates that meet the condition and are each other's only ones."""
    matching_pairs = candidates.filter(condition)
    unique = (pl.len().over("problem") == 1) & (pl.len().over("problem_other") == 1)
    return matching_pairs.filter(unique).select("problem", own="problem_other")


def _unmatched_notes(
    left: pl.DataFrame, right: pl.DataFrame, pairs: pl.DataFrame, before: str, after: str
) -> list[Note]:
    """Problems that share a text or an id with one of the other run and are still not the same, with the reason."""
    words = {
        "gold_key": "a different gold answer",
        "pictures": "different images",
        "hash": "a different text",
        "context_hash": "a different context",
        **{f"{name}_hash": f"different {name}" for name in HASHED if name != "context"},
    }
    by_text = _unpaired(left, right, pairs, ["hash"])
    by_id = _unpaired(left, right, pairs, ["problem"])
    notes = []
    for name in FIELDS:
        source, shared = (by_id, "id") if name == "hash" else (by_text, "text")
        # A field that no candidate shares is what keeps the two apart.
        unmatched = source.filter(fields_differ(name).all().over("problem")).unique("problem", maintain_order=True)
        if unmatched.is_empty():
            continue
        example = _texts(unmatched, left, right)
        if name == "gold_key":
            golds = unmatched.row(0, named=True)
            example += f", golds {_shortened(golds['gold_key'])} and {_shortened(golds['gold_key_other'])}"
        theirs = f"with the {shared} of one in {after} but {words[name]}"
        text = f"{_problems(unmatched.height)} of {before} {theirs} {_is_or_are(unmatched.height)}"
        notes.append(Note(f"{text} not matched (first: {example})", unmatched.height, warning=True, code=UNMATCHED))
    ambiguous = by_text.filter(contents_agree() & ~fields_differ("pictures")).unique("problem", maintain_order=True)
    if ambiguous.height:
        theirs = f"with the content of several in {after} {_is_or_are(ambiguous.height)} not matched: {NO_ID_DECIDES}"
        text = f"{_problems(ambiguous.height)} of {before} {theirs}"
        notes.append(
            Note(f"{text} (first: {_texts(ambiguous, left, right)})", ambiguous.height, warning=True, code=UNMATCHED)
        )
    return notes


def _texts(candidates: pl.DataFrame, left: pl.DataFrame, right: pl.DataFrame) -> str:
    """The texts of the first candidate in both runs, or the one that they share."""
    texts = [
        table.filter(pl.col("problem") == candidates[column][0])["question"][0] or candidates[column][0]
        for table, column in ((left, "problem"), (right, "problem_other"))
    ]
    return " and ".join(dict.fromkeys(map(_shortened, texts)))


def _problems(count: int) -> str:
    return "1 problem" if count == 1 else f"{count:,} problems"


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def _shortened(text: object) -> str:
    line = " ".join(str(text or "").split())
    return repr(line if len(line) <= CHARACTERS_SHOWN else f"{line[: CHARACTERS_SHOWN - 3]}...")


def _nothing_in_common(runs: Sequence[Run], notes: Sequence[Note]) -> OffleashError:
    """The refusal, with the first problems as a person knows them: texts where there are any, not hashes."""
    names = " and ".join(repr(run.name) for run in runs[:2]) + (f" and {len(runs) - 2} more" if len(runs) > 2 else "")
    first = [run.problems.sort("problem").row(0, named=True) for run in runs[:2]]
    examples = " against ".join(_shortened(row["question"] or row["problem"]) for row in first)
    if not notes:
        return OffleashError(
            f"{names} have no problem in common (first problems: {examples}). Problems match by content, else by id: "
            "name the right columns with --map problem=COLUMN or --map question=COLUMN."
        )
    step = next((step for words, step in NEXT_STEPS.items() if words in notes[0].text), "")
    return OffleashError(f"{names} have no problem in common: {notes[0].text}.{step}")


def _fill_missing(problems: pl.DataFrame, runs: Sequence[Run], own: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Texts, golds, benchmarks and floors that the first run lacks, from the others."""
    columns = ["question", "gold", "benchmark", "guess"]
    for run, names in zip(runs[1:], own[1:], strict=True):
        theirs = run.problems.rename({"problem": "own"}).join(names, on="own").select("problem", *columns)
        problems = problems.join(theirs, on="problem", how="left", suffix="_other", maintain_order="left")
        problems = problems.with_columns(pl.coalesce(column, f"{column}_other").alias(column) for column in columns)
        problems = problems.drop(f"{column}_other" for column in columns)
    return problems


# Decoding: two runs that were sampled differently are refused, or noted with --allow decoding.


DECODING = "decoding"
ALLOWED_DIFFERENCES = (DECODING,)  # what --allow may name
STOP_SETTING = "stop"  # texts that end a sample
NAMES = ("temperature", "top_p", "top_k", "min_p", "max_tokens")  # numbers that decide what a model can reach


def allowed(words: Sequence[str]) -> frozenset[str]:
    """What may differ between runs, from the words of --allow."""
    for word in words:
        if word not in ALLOWED_DIFFERENCES:
            raise unknown("--allow value", word, ALLOWED_DIFFERENCES)
    return frozenset(words)


def is_greedy(run: Run) -> bool:
    """Whether a run is known to be decoded greedily: temperature 0, or no sampling at all."""
    settings = _decoding(run)
    return settings.get("do_sample") is False or settings.get("temperature") in (0, 0.0)


def same_decoding(before: Run, after: Run, allow: frozenset[str]) -> tuple[Note, ...]:
    """Refuse two runs that are known to have been drawn with different decoding, or note it where that is allowed."""
    differing, prompts = _differing_settings(before, after), _differing_prompts(before, after)
    if not differing:
        return prompts
    settings = ", ".join(f"{name} {before_value} vs {now}" for name, before_value, now in differing)
    if DECODING in allow:
        return (
            Note(
                f"{before.name} and {after.name} were drawn with different decoding ({settings}), accepted with --allow"
            ),
            *prompts,
        )
    raise OffleashError(
        f"{before.name!r} and {after.name!r} were drawn with different decoding: {settings}. A comparison would "
        "confound decoding with training: draw both with the same decoding (offleash sweep compares several), or "
        "compare them anyway with --allow decoding."
    )


def _differing_prompts(before: Run, after: Run) -> tuple[Note, ...]:
    """A warning where only one of two drawn runs had a prompt of the user's own, or they had different ones."""
    asked = [run.facts.get("prompting") for run in (before, after)]
    if asked[0] == asked[1] or not all("decoding" in run.facts for run in (before, after)):
        return ()
    text = (
        f"{before.name} and {after.name} were drawn with different prompts (--prompt, --system or --chat-kwargs), so a "
        "difference may be due to the prompts; to compare prompts, use offleash sweep --prompts"
    )
    return (Note(text, warning=True, code="prompts_differ"),)


def _differing_settings(before: Run, after: Run) -> list[tuple[str, str, str]]:
    """Settings that both runs record and that differ, as (name, before, after); an unrecorded one is no conflict."""
    before_settings, after_settings = _decoding_settings(before), _decoding_settings(after)
    return [
        (name, before_settings[name], after_settings[name])
        for name in before_settings
        if name in after_settings and before_settings[name] != after_settings[name]
    ]


def _decoding(run: Run) -> Mapping[str, object]:
    """A run's decoding as it records it; empty where it records none."""
    try:
        document = json.loads(run.facts.get("decoding", "{}"))
    except ValueError:  # a log may describe its decoding in free text
        return {}
    return document if isinstance(document, Mapping) else {}


def _decoding_settings(run: Run) -> dict[str, str]:
    """A run's decoding in canonical text, so that 1 and 1.0 are equal; empty where it records none."""
    settings = _decoding(run)
    numbers = {name: value for name in NAMES if isinstance(value := settings.get(name), int | float)}
    known = {name: f"{value:.9g}" for name, value in numbers.items() if math.isfinite(value)}
    stop = settings.get(STOP_SETTING)
    return known | (
        {STOP_SETTING: json.dumps(sorted(map(str, stop)), ensure_ascii=True)} if isinstance(stop, list) else {}
    )
