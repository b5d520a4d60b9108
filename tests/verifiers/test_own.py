"""A user's own function: how its interface is recognised, what it is given, and what its return values mean."""

import json
import math
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.plugins import PluginError
from offleash.verifiers.own.bind import CallOptions, OwnProblem, arguments, own_verifier
from offleash.verifiers.own.decide import OFFLEASH, TRL, VERL, decide, packed, read_verdict, signature
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement, OwnFunction, Verifier

PROBLEM = OwnProblem(
    id="p1",
    gold="42",
    question="What is 6 * 7?",
    prompt="What is 6 * 7? Put it in a box.",
    benchmark="sums",
    details={"unit": "m"},
    columns={"difficulty": 3, "answer": "a long solution", "extra_info": {"index": 5}, "data_source": "mine"},
)


def own(function: Any) -> OwnFunction:
    interface, required, optional, accepts_any_keyword = signature(function, "file.py:f")
    return OwnFunction("file.py:f", interface, tuple(required), tuple(optional), accepts_any_keyword)


# Interfaces, recognised by their parameters.


def verl(data_source: str, solution_str: str, ground_truth: str, extra_info: object = None) -> float: ...  # type: ignore[empty-body]
def trl(completions: object, answer: object, **kwargs: object) -> list[float]: ...  # type: ignore[empty-body]
def of_ids(completion_ids: object, **kwargs: object) -> list[float]: ...  # type: ignore[empty-body]
def ours(text: str, gold: str) -> bool: ...  # type: ignore[empty-body]
def ours_of_one(extracted: str) -> bool: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "interface"), [(verl, VERL), (trl, TRL), (of_ids, TRL), (ours, OFFLEASH), (ours_of_one, OFFLEASH)]
)
def test_an_interface_is_recognised_by_its_parameters(function: Any, interface: str) -> None:
    assert own(function).interface == interface


@pytest.mark.parametrize("function", [lambda: True, lambda gold: True, str, 3, max])
def test_what_takes_no_sample_is_refused(function: Any) -> None:
    with pytest.raises(PluginError):
        own(function)


# Arguments: the gold answer under its four names, columns by their own, never the extracted answer.


def test_the_gold_answer_has_four_names_and_a_column_of_solutions_none_of_them() -> None:
    def judge(text: str, gold: str, solution: str, answer: str, ground_truth: str) -> bool: ...  # type: ignore[empty-body]

    assert set(arguments(own(judge), PROBLEM).values()) == {"42"}


def test_verl_gets_the_data_source_and_the_extra_info_of_the_row() -> None:
    assert arguments(own(verl), PROBLEM) == {
        "data_source": "mine",
        "ground_truth": "42",
        "extra_info": {"index": 5},
    }


def test_a_ground_truth_that_is_more_than_a_text_reaches_verl_as_it_is() -> None:
    target = {"target": 24, "numbers": [1, 2, 3, 4]}
    problem = OwnProblem("p", "24", "?", "?", columns={"reward_model": {"ground_truth": target}})
    assert arguments(own(verl), problem)["ground_truth"] == target


def test_trl_gets_all_columns_and_the_prompt() -> None:
    given = arguments(own(trl), PROBLEM)
    assert given["answer"] == given["solution"] == "42"
    assert given["difficulty"] == 3
    assert given["prompts"] == PROBLEM.prompt


def test_a_parameter_with_a_default_of_ours_keeps_it() -> None:
    def judge(text: str, gold: str, difficulty: int = 0) -> bool: ...  # type: ignore[empty-body]

    assert arguments(own(judge), PROBLEM) == {"gold": "42"}


def test_a_missing_column_is_an_error_with_the_nearest_name() -> None:
    def judge(text: str, dificulty: int) -> bool: ...  # type: ignore[empty-body]

    with pytest.raises(OffleashError, match=r"'dificulty'.*'p1'.*Did you mean 'difficulty'\?"):
        arguments(own(judge), PROBLEM)


def test_the_problem_as_a_whole_is_a_dict() -> None:
    def judge(text: str, problem: dict[str, object]) -> bool: ...  # type: ignore[empty-body]

    problem = arguments(own(judge), PROBLEM)["problem"]
    assert isinstance(problem, dict)
    assert (problem["id"], problem["gold"], problem["columns"]["difficulty"]) == ("p1", "42", 3)


# What a returned value means.


@pytest.mark.parametrize(
    ("value", "interface", "verdict", "score"),
    [
        (True, OFFLEASH, "correct", None),
        (False, OFFLEASH, "wrong", None),
        (1.0, OFFLEASH, "correct", 1.0),
        (0.99, OFFLEASH, "wrong", 0.99),
        (np.float64(1.0), VERL, "correct", 1.0),
        (np.bool_(True), OFFLEASH, "correct", None),
        (None, OFFLEASH, "unread", None),
        (None, VERL, "failed", None),
        ({"score": 1.0, "acc": False}, VERL, "correct", 1.0),
        ({"score": True}, OFFLEASH, "correct", None),
        ([1.0], TRL, "correct", 1.0),
        ((0,), TRL, "wrong", 0.0),
        (np.array([1.0]), TRL, "correct", 1.0),
        ([None], TRL, "failed", None),
    ],
)
def test_values_are_verdicts(value: object, interface: str, verdict: str, score: float | None) -> None:
    judgement = read_verdict(value, interface, threshold=1.0)
    assert (judgement.verdict.value, judgement.score) == (verdict, score)


def test_a_threshold_is_for_numbers_and_not_for_truth() -> None:
    assert read_verdict(0.5, OFFLEASH, 0.5).verdict is Verdict.CORRECT
    assert read_verdict(True, OFFLEASH, 2.0).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("value", "interface"),
    [
        (math.nan, OFFLEASH),
        (math.inf, OFFLEASH),
        ("True", OFFLEASH),
        ([1.0], OFFLEASH),
        ({"acc": 1.0}, VERL),
        (1.0, TRL),
        ([1.0, 1.0], TRL),
        ([], TRL),
        (["1.0"], TRL),
        ([math.nan], TRL),
        (object(), OFFLEASH),
    ],
)
def test_nonsense_is_no_verdict(value: object, interface: str) -> None:
    with pytest.raises(PluginError, match="returned"):
        read_verdict(value, interface, threshold=1.0)


# Calling, in this process: a sample in, a judgement out.


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: in the repository, every test module would be a local import that is read and hashed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(file: Path, source: str, text: str, *, messages: bool = False, extracted: str | None = None) -> Judgement:
    """The judgement of a function `f`, of the file's source."""
    file.write_text(source, encoding="utf-8")
    described = decide(Case("", details={"reference": f"{file}:f"}))
    assert described.solution is not None, described.reason
    parameters = json.loads(described.solution)
    function = OwnFunction(
        f"{file}:f",
        parameters["interface"],
        tuple(parameters["required"]),
        tuple(parameters["optional"]),
        parameters["any_keyword"],
    )
    details = {
        "reference": f"{file}:f",
        "interface": function.interface,
        "messages": messages,
        "threshold": 1.0,
        "tokenizer": "",
        "arguments": arguments(function, PROBLEM),
    }
    return decide(Case(packed(text, extracted), details=details))


def test_trl_is_called_with_lists_as_it_calls(own_folder: Path) -> None:
    source = (
        "async def f(prompts, completions, answer, trainer_state, log_extra, log_metric, **kwargs):\n"
        "    log_extra('answer', answer)\n"
        "    log_metric('right', 1.0)\n"
        "    assert prompts == [[{'role': 'user', 'content': 'What is 6 * 7? Put it in a box.'}]]\n"
        "    assert completions[0][0]['role'] == 'assistant' and kwargs['difficulty'] == [3]\n"
        "    assert trainer_state.global_step == 0\n"
        "    return [1.0 if a in c[0]['content'] else 0.0 for c, a in zip(completions, answer, strict=True)]\n"
    )
    assert judged(own_folder / "a.py", source, "it is 42", messages=True).verdict is Verdict.CORRECT
    assert judged(own_folder / "a.py", source, "it is 43", messages=True).verdict is Verdict.WRONG


def test_an_error_on_completions_names_the_form_that_would_work(own_folder: Path) -> None:
    source = "def f(completions, answer):\n    return [float(c[0]['content'] == answer[0]) for c in completions]\n"
    judgement = judged(own_folder / "b.py", source, "42")
    assert judgement.verdict is Verdict.FAILED
    assert judgement.reason.endswith("add --completions messages")


def test_the_extracted_answer_is_never_the_gold(own_folder: Path) -> None:
    source = "def f(extracted, answer):\n    return extracted == answer\n"
    assert judged(own_folder / "c.py", source, "...", extracted="41").verdict is Verdict.WRONG
    assert judged(own_folder / "c.py", source, "...", extracted="42").verdict is Verdict.CORRECT


def test_an_exception_is_a_failure_in_words(own_folder: Path) -> None:
    judgement = judged(own_folder / "d.py", "def f(text):\n    raise KeyError('oops')\n", "42")
    assert (judgement.verdict, judgement.reason) == (Verdict.FAILED, "KeyError: 'oops'")


def test_a_module_is_loaded_from_where_this_process_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Editable installs: a finder of this process knows the package, and no path of Python does."""
    (tmp_path / "edited_rewards").mkdir()
    (tmp_path / "edited_rewards" / "__init__.py").write_text("def f(text, gold):\n    return text == gold\n")

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return PathFinder.find_spec(name, [str(tmp_path)]) if name == "edited_rewards" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert own_verifier("edited_rewards:f").name == "own-f"


# The verifier: its version is the hash of the file and of the local modules that it imports.


def test_the_version_changes_with_the_file_and_with_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text("LIMIT = 1\n")
    (tmp_path / "later.py").write_text("STRICT = True\n")
    file = tmp_path / "mine.py"
    file.write_text("import near\ndef f(text, gold):\n    import later\n    return text == gold and later.STRICT\n")
    first = own_verifier(f"{file}:f")
    assert first.name == "own-f"
    assert own_verifier(f"{file}:f") == first
    (tmp_path / "near.py").write_text("LIMIT = 12\n")
    second = own_verifier(f"{file}:f")
    (tmp_path / "later.py").write_text("STRICT = False\n")  # imported inside the function only
    third = own_verifier(f"{file}:f")
    assert len({first.revision, second.revision, third.revision}) == 3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(text:\n", "SyntaxError"),
        ("import no_such_module\n", "no_such_module"),
        ("raise ValueError('broken')\n", "ValueError: broken"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("def g(text, gold):\n    return True\n", "no function f"),
        ("f = 3\n", "of type int"),
        ("class f:\n    pass\n", "a class"),
        ("def f(x):\n    return True\n", "takes x"),
        ("import os\nos._exit(0)\n", "process died"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path, source: str, words: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    with pytest.raises(OffleashError, match=words) as error:
        own_verifier(f"{file}:f")
    assert str(file) in str(error.value)


def test_a_file_that_hangs_while_it_is_imported_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offleash.verifiers.own.bind.SECONDS_TO_LOAD", 0.5)
    file = tmp_path / "slow.py"
    file.write_text("while True:\n    pass\n")
    with pytest.raises(OffleashError, match=r"time limit of 0.5 s"):
        own_verifier(f"{file}:f")


def limited(verifier: Verifier, seconds: float) -> Verifier:
    from dataclasses import replace

    return replace(verifier, seconds=seconds)


def test_a_function_that_hangs_forks_or_dies_fails_its_own_sample_only(tmp_path: Path) -> None:
    file = tmp_path / "wild.py"
    file.write_text(
        "import os\n"
        "def f(text):\n"
        "    if text == 'hang':\n"
        "        while True: pass\n"
        "    if text == 'die': os._exit(1)\n"
        "    if text == 'fork': os.fork()\n"  # the child returns from here too
        "    if text == 'exit': raise SystemExit\n"
        "    return True\n"
    )
    verifier = limited(own_verifier(f"{file}:f"), 1.0)
    texts = ["hang", "die", "fork", "exit", "fine", "fork", "fine"]
    assert verifier.own is not None
    details = {"reference": verifier.own.reference, "interface": OFFLEASH, "messages": False, "threshold": 1.0}
    details |= {"tokenizer": "", "arguments": {}}
    with Pool(1) as pool:
        verdicts = dict(pool.judge(verifier, [Case(packed(text, None), details=details) for text in texts]))
    correct = [verdicts[index].verdict.value for index in range(len(texts))]
    assert correct == ["failed", "failed", "correct", "failed", "correct", "correct", "correct"]
    assert "time limit" in verdicts[0].reason


def test_a_file_that_forks_while_it_is_imported_answers_once_per_sample(tmp_path: Path) -> None:
    file = tmp_path / "forks.py"
    file.write_text("import os, time\nif os.fork() == 0: time.sleep(0.002)\ndef f(text): return text == 'right'\n")
    verifier = own_verifier(f"{file}:f")
    assert verifier.own is not None
    details = {"reference": verifier.own.reference, "interface": OFFLEASH, "messages": False, "threshold": 1.0}
    details |= {"tokenizer": "", "arguments": {}}
    texts = ["right", "wrong"] * 100
    with Pool(1) as pool:
        verdicts = dict(pool.judge(verifier, [Case(packed(text, None), details=details) for text in texts]))
    assert [verdicts[place].verdict.value for place in range(200)] == ["correct", "wrong"] * 100


def test_options_that_change_verdicts_are_part_of_the_name() -> None:
    verifier = Verifier("own-f", "1", (), "m", own=OwnFunction("a.py:f", TRL, ("completions",)))
    assert CallOptions().of(verifier).name == "own-f"
    assert CallOptions(0.5).of(verifier).name == "own-f.threshold0.5"
    assert CallOptions(completions="messages").of(verifier).name == "own-f.messages"
    assert CallOptions(completions="messages", chat=True).of(verifier).name == "own-f"
    with_ids = Verifier("own-f", "1", (), "m", own=OwnFunction("a.py:f", TRL, ("completion_ids",)))
    with pytest.raises(OffleashError, match="completion_ids"):
        CallOptions().of(with_ids)
    assert CallOptions(not_yet_drawn=True).of(with_ids).own == with_ids.own
    assert CallOptions(tokenizer="org/model").of(with_ids).own == OwnFunction(
        "a.py:f", TRL, ("completion_ids",), tokenizer="org/model"
    )
