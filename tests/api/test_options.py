"""Options: one name for one thing, one thing for one name, each with help, each as a flag and as a keyword."""

import inspect
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import MISSING
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

import offleash as ol
from offleash.cli.builder import command_of
from offleash.cli.main import overview
from offleash.cli.verbs import GROUPS, VERBS, Verb
from offleash.comparing.align import ALLOWED_DIFFERENCES
from offleash.comparing.question import Unread
from offleash.data.tally import Per
from offleash.options import Data, Decoding, Flag
from offleash.results.result import Result
from offleash.samplers.sampler import DECODINGS
from offleash.signatures import Option, describe, verb
from offleash.stats.support_classes import Certified, Rule
from tests.cli.command import offleash, refused
from tests.places import EXAMPLES

COUNTS = EXAMPLES / "counts"
TWO = (COUNTS / "base.csv", COUNTS / "rl.csv")

# Flags that are not called as their keyword, and why.
OTHER_FLAGS = {
    "columns": ("--map", "in Python `map` is a builtin, and what is given are columns"),
    "settings": ("--set", "in Python `set` is a builtin, and what is given are settings"),
    "source": ("--from", "`from` is a word of Python"),
    "k": ("-k", "as everybody writes it"),
}
# Verbs that are not called as their function: `import` is a word of Python, the others would say too little there.
CALLED = {"import": "import_logs", "problems": "problem_set", "formats": "show_formats"}
# Options whose help differs from verb to verb, and why; of all others it is the same everywhere.
OWN_WORDS = {
    "out": "what is written differs: a run, a page, a figure, a model",
    "temperature": "one of a decoding, or the grid of a sweep",
    "top_p": "one of a decoding, or the grid of a sweep",
    "at": "of certify, the budget whose epsilon is taken",
    "until": "of a plan, instead of the successes that are needed",
    "model": "who scores, or where a model is now",
    "problems": "whose gold answers are taken, or which are to be solved",
    "size": "of a lab world, problems are generated and never sampled",
}


def every_option() -> list[tuple[str, Option]]:
    return [(name, option) for name, item in VERBS.items() for option in describe(item.load()).options.values()]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_a_public_function_with_a_summary_that_is_not_cut(name: str) -> None:
    function = VERBS[name].load()
    assert getattr(ol, function.__name__) is function
    assert 0 < len(VERBS[name].summary) <= 45
    assert f"{VERBS[name].summary}\n" in overview()
    assert CALLED.get(name, name.replace(" ", "_")) == function.__name__
    assert f"offleash {name}" in (function.__doc__ or ""), "examples"


def test_every_public_function_that_declares_options_is_a_verb_but_for_the_parts_of_compare() -> None:
    public = {name for name in ol.__all__ if hasattr(getattr(ol, name), "__wrapped__")}
    assert public - {item.load().__name__ for item in VERBS.values()} == {"load", "tally"}


def test_a_flag_is_called_as_its_keyword() -> None:
    for name, option in every_option():
        expected = OTHER_FLAGS.get(option.keyword, (f"--{option.keyword.replace('_', '-')}", ""))[0]
        assert option.name == expected, f"{name}: {option.keyword}"
        assert option.flag.help.endswith((".", "}")), f"{name}: {option.name} has no help"
        assert (option.keyword == "out") == (option.flag.short == "-o"), f"{name}: -o is --out everywhere"


def test_a_name_stands_for_one_thing_and_a_thing_has_one_name() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for _, option in every_option():
        meanings[option.keyword].add(f"{option.flag.help} {option.kind}" if option.keyword not in OWN_WORDS else "")
        names[option.flag.help].add(option.keyword)
    assert {name: said for name, said in meanings.items() if len(said) > 1} == {}
    assert {said: item for said, item in names.items() if len(item) > 1} == {}


def test_every_exception_is_needed() -> None:
    used = {option.keyword for _, option in every_option()}
    assert set(OTHER_FLAGS) <= used
    helps = defaultdict(set)
    for _, option in every_option():
        helps[option.keyword].add(option.flag.help)
    assert [name for name in OWN_WORDS if len(helps[name]) < 2] == []


@pytest.mark.parametrize("name", VERBS)
def test_the_command_has_a_flag_for_every_option_and_no_other(name: str) -> None:
    command = command_of(VERBS[name])
    flags = {word for parameter in command.params for word in parameter.opts if word.startswith("-")}
    declared = describe(VERBS[name].load())
    short = {option.flag.short for option in declared.options.values()} - {""}
    assert flags - {"--help", "-h"} == {option.name for option in declared.options.values()} | short | {"--json"}
    shown = offleash(*name.split(), "--help").out
    assert all(option.name in shown for option in declared.options.values())


@pytest.mark.parametrize("name", VERBS)
def test_every_parameter_is_data_an_option_a_group_or_known_to_be_for_python_alone(name: str) -> None:
    function = VERBS[name].load()
    declared = describe(function)
    assert set(declared.python_only) <= {"progress", "announce", "command", "each"}
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not parameter.empty
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


def test_the_choices_that_options_name_are_those_there_are() -> None:
    def words(kind: type[StrEnum]) -> set[str]:
        return {item.value for item in kind}

    compared = describe(ol.compare).options
    assert set(compared["rule"].flag.choices) == words(Rule)
    assert set(compared["per"].flag.choices) == words(Per) - {"target"}
    assert set(compared["unread"].flag.choices) == words(Unread)
    assert set(compared["question"].flag.choices) == words(Certified)
    assert set(compared["allow"].flag.choices) == set(ALLOWED_DIFFERENCES)
    assert set(describe(ol.draw).options["decoding"].flag.choices) == set(DECODINGS)


# Bad input: before any work, in two sentences, the same message from Python and from the command line.


def both(verb_name: str, words: tuple[object, ...], call: Callable[[], object]) -> str:
    """The message of a command, which is that of the call."""
    typed = offleash(*verb_name.split(), *map(str, words))
    refused(typed)
    with pytest.raises(ol.OffleashError) as raised:
        call()
    said = typed.err.strip().removeprefix("offleash: ")
    assert _without_dashes(said) == _without_dashes(str(raised.value))
    return said


def _without_dashes(text: str) -> str:
    return text.replace("'--", "'").replace("-", "_")


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (("--at", 0), {"at": 0}, "--at takes a whole number from 1. Found --at 0."),
        (
            ("--replicates", 5),
            {"replicates": 5},
            "from 100 to 1,000,000. Found --replicates 5.",
        ),
        (("--tau", 1), {"tau": 1}, "--tau takes a number from 0 to below 1. Found --tau 1."),
        (("--at", "many"), {"at": "many"}, "--at takes a whole number from 1. Found --at many."),
        (("--rule", "sen"), {"rule": "sen"}, "Found --rule 'sen'; did you mean 'seen'?"),
        (("--allow", "seeds"), {"allow": "seeds"}, "--allow takes decoding. Found --allow 'seeds'."),
        (("--verfier", "math"), {"verfier": "math"}, "compare has no option '--verfier'. Did you mean '--verifier'?"),
        (
            ("--verify", "math"),
            {"verify": "math"},
            "compare no longer has the option '--verify'. Use '--verifier'.",
        ),
        (("--threshold", "nan"), {"threshold": float("nan")}, "--threshold takes a number. Found --threshold nan."),
        (("--verdicts", "a", "--verifier", "math"), {"verdicts": "a", "verifier": "math"}, "Leave one out."),
        (("--tau", 0.5), {"tau": 0.5}, "--rule above"),
        (("--jobs", 1), {"jobs": 1}, "Add --verifier NAME."),
    ],
)
def test_what_compare_refuses_it_refuses_alike(words: tuple[object, ...], options: Any, message: str) -> None:
    assert message in both("compare", (*TWO, *words), lambda: ol.compare(*TWO, **options))


def test_other_verbs_refuse_alike(tmp_path: Path) -> None:
    problems, model = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
    assert "draw needs MODEL." in both("draw", (problems,), lambda: ol.draw(problems, k=4, out="x"))  # type: ignore[call-arg]
    assert "draw needs --out." in both("draw", (problems, model, "-k", 4), lambda: ol.draw(problems, model, k=4))  # type: ignore[call-arg]
    said = both(
        "draw",
        (problems, model, "-k", 4, "--into", tmp_path / "x"),
        lambda: ol.draw(problems, model, k=4, into=tmp_path / "x"),  # type: ignore[call-arg]
    )
    assert said == "draw no longer has the option '--into'. Use '--out'."
    said = both(
        "certify",
        (problems, "hf:x", "--epsilon", 0.1, "--at", 9, "-o", tmp_path / "x"),
        lambda: ol.certify(problems, "hf:x", epsilon=0.1, at=9, out=tmp_path / "x"),
    )
    assert said.endswith("Leave one out.")
    said = both(
        "report",
        (*TWO, "--intervals", "-o", tmp_path / "x.md"),
        lambda: ol.report(*TWO, intervals=True, out=tmp_path / "x.md"),
    )
    assert "--format latex" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verb_name", "old", "new"),
    [
        ("compare", "--verify", "--verifier"),
        ("compare", "--format", "--log-format"),
        ("entropy", "--verifier", "--verdicts"),
        ("score", "--verifier", "--verdicts"),
        ("study", "--into", "--out"),
        ("lab pretrain", "--into", "--out"),
        ("verify", "--referee", "--judge"),
        ("verify", "--referee-model", "--judge-model"),
        ("certify", "-k", "--at"),
        ("problems", "--seed", "--problem-seed"),
    ],
)
def test_an_old_name_is_answered_with_the_new_one(verb_name: str, old: str, new: str) -> None:
    refused(offleash(*verb_name.split(), "x", old, "1"), f"no longer has the option {old!r}. Use {new!r}.")


def test_a_verb_that_there_is_not_is_answered_with_the_nearest_or_the_new_one() -> None:
    refused(offleash("comapre"), "offleash has no command 'comapre'. Did you mean 'compare'?")
    refused(offleash("ways", "a", "b"), "Use 'strategies'.")
    refused(offleash("plan", "runs/pilot"), "plan has no command 'runs/pilot'. Its commands: samples, training.")
    refused(offleash("lab", "modle"), "Did you mean 'model'?")
    refused(offleash("--jsno"), "Options follow a command")
    for group in GROUPS:
        assert f"offleash {group} COMMAND" in offleash(group).out
    with pytest.raises(AttributeError, match="no longer has 'run_study'"):
        ol.run_study  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'compere'"):
        ol.compere  # noqa: B018


# Groups.


def test_a_field_of_a_group_may_be_given_by_itself(tmp_path: Path) -> None:
    problems, model = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
    grouped = ol.draw(problems, model, k=4, out=tmp_path / "a", decoding=Decoding("paper", max_tokens=64))
    flat = ol.draw(problems, model, k=4, out=tmp_path / "b", decoding="paper", max_tokens=64)  # type: ignore[arg-type, call-arg]
    facts = [json.loads((item.folder / "run.json").read_text()) for item in (grouped, flat)]
    assert facts[0]["draw"]["decoding"] == facts[1]["draw"]["decoding"]
    assert facts[0]["draw"]["decoding"]["max_tokens"] == 64
    with pytest.raises(ol.OffleashError, match="takes a Decoding"):
        ol.draw(problems, model, k=4, out=tmp_path / "c", decoding=3)  # type: ignore[arg-type]
    with pytest.raises(ol.OffleashError, match="score has no option --max-tokens"):
        ol.score(tmp_path / "a", model="hf:x", decoding=Decoding(max_tokens=4))


def test_a_field_belongs_to_one_group_unless_it_is_declared_once_for_several() -> None:
    fields: dict[str, set[int]] = defaultdict(set)
    for _, option in every_option():
        if option.group:
            fields[option.keyword].add(id(option.flag))
    assert {name for name, flags in fields.items() if len(flags) > 1} == set()


# Adding an option is one line of declaration and its use: docs/extending.md shows it on `compare`.


class Counted(Result):
    """What the toy verb returns."""

    def __init__(self, words: int) -> None:
        self.words = words

    def to_dict(self) -> dict[str, int]:
        return {"words": self.words}

    def show(self, console: Any = None) -> None:
        print(f"{self.words} words")


@verb
def toy(
    *texts: Annotated[str, Data("TEXT...", "Texts.")],
    longest: Annotated[int | None, Flag("Count only words of at most this length.", metavar="N", least=1)] = None,
) -> Counted:
    """Count words.

    Examples:
      offleash toy "two words"
    """
    return Counted(sum(longest is None or len(word) <= longest for text in texts for word in text.split()))


def test_an_option_of_a_toy_verb_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = command_of(Verb("toy", f"{__name__}:toy", "Count words."))
    assert toy("two words", "three").words == 3
    assert toy("two words", "three", longest=3).to_dict() == {"words": 1}
    for words, shown in ((["two words", "--longest", "3", "--json"], '{"words": 1}'), (["a b"], "2 words")):
        with pytest.raises(SystemExit) as left:
            command(words)
        assert not left.value.code
        assert capsys.readouterr().out.strip() == shown
    with pytest.raises(SystemExit):
        command(["--help"])
    assert "--longest N  Count only words of at most this length." in capsys.readouterr().out
    with pytest.raises(ol.OffleashError, match="--longest takes a whole number from 1"):
        toy("a", longest=0)
    with pytest.raises(ol.OffleashError, match="Did you mean 'longest'"):
        toy("a", longets=3)  # type: ignore[call-arg]
    assert describe(toy).options["longest"].default is not MISSING
