"""What a worker does for a user's own verifier: load the function, call it as its trainer would, read what it returns.

A case carries the text and the extracted answer (`packed`), and in its details the function and the arguments that the
problem gives it (bind.py). The function is the user's own and is trusted; the text that it judges is not, and nothing
here evaluates it. A function that hangs, dies or fills the memory costs its worker, which the pool replaces.
"""

import inspect
import json
import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from inspect import Parameter
from types import SimpleNamespace

from offleash.data.verdict import Verdict
from offleash.plugins import PluginError, error_line, load_reference, source_files, source_hash
from offleash.verifiers.verifier import Case, Judgement

VERL, TRL, OFFLEASH = "verl", "trl", "offleash"
# An interface is recognised by a parameter that only it has, in this order.
INTERFACES: dict[str, tuple[str, ...]] = {
    VERL: ("solution_str",),
    TRL: ("completions", "completion_ids", "prompts"),
    OFFLEASH: ("text", "extracted"),
}
GIVEN_BY_TRL = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
FORMS = {True: "messages", False: "text"}  # of completions, in the words of --completions
OTHER_FORM = "Give completions as {other}: add --completions {other}"  # a reason that ends so stops the command
Value = object


def packed(text: str, extracted: str | None) -> str:
    """What is judged, as the `answer` of a case: equal texts may differ in the answer that was extracted."""
    return json.dumps([text, extracted], ensure_ascii=False)


def decide(case: Case) -> Judgement:
    """Serve a case of bind.py: a sample to judge, or a function to load and describe."""
    details = dict(case.details)
    reference, folder = str(details["reference"]), str(details.get("folder", ""))
    if folder and folder not in sys.path:
        sys.path.append(folder)
    if "arguments" not in details:
        return _describe_function(reference)
    text, extracted = json.loads(case.answer)
    function = _function(reference)
    arguments, interface = dict(details["arguments"]), str(details["interface"])  # type: ignore[call-overload]
    messages, threshold = details["messages"] is True, float(str(details["threshold"]))
    token_ids = _token_ids(str(details["tokenizer"]), text) if details["tokenizer"] else None

    def call(as_messages: bool) -> Value:
        return _call_once(function, interface, arguments, text, extracted, as_messages, token_ids)

    try:
        returned = call(messages)
    except MemoryError:
        raise  # the worker is at its limit: let it be replaced
    except Exception as error:
        return Judgement(Verdict.FAILED, _error_text(error, call if interface == TRL else None, messages))
    try:
        return read_verdict(returned, interface, threshold)
    except PluginError as error:
        return Judgement(Verdict.FAILED, f"{reference} {error}")


# Loading: the function, its parameters and the hash of its source.


def signature(function: object, reference: str) -> tuple[str, list[str], list[str], bool]:
    """How a function is called: its interface, parameters without and with a default, and whether it has **kwargs."""
    if inspect.isclass(function) or not callable(function):
        kind = "a class" if inspect.isclass(function) else f"of type {type(function).__name__}"
        raise PluginError(f"{reference} is {kind}; name a function")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise PluginError(
            f"the parameters of {reference} cannot be read; write a Python function that calls it"
        ) from None
    named = [
        parameter for parameter in parameters if parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    ]
    names = [parameter.name for parameter in named]
    interface = next((name for name, parameter_names in INTERFACES.items() if set(parameter_names) & set(names)), None)
    if interface is None:
        raise PluginError(
            f"{reference} takes {', '.join(names) or 'nothing'}, but none of the parameters that receive a sample: "
            f"{', '.join(mark for parameter_names in INTERFACES.values() for mark in parameter_names)}"
        )
    required = [parameter.name for parameter in named if parameter.default is Parameter.empty]
    accepts_any_keyword = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    return interface, required, [name for name in names if name not in required], accepts_any_keyword


def _describe_function(reference: str) -> Judgement:
    """The function's parameters, and the files and the hash of its source, as JSON; failed where it does not load."""
    try:
        function = load_reference(reference)
        interface, required, optional, accepts_any_keyword = signature(function, reference)
        files = [str(file) for file in source_files(reference)]
        revision = source_hash(reference)
    except MemoryError:
        raise
    except BaseException as error:  # whatever the user's module does while it is imported, SystemExit too
        return Judgement(Verdict.FAILED, error_line(error))
    description = {
        "interface": interface,
        "required": required,
        "optional": optional,
        "any_keyword": accepts_any_keyword,
    }
    return Judgement(Verdict.CORRECT, solution=json.dumps({**description, "files": files, "revision": revision}))


@cache
def _function(reference: str) -> Callable[..., Value]:
    function = load_reference(reference)
    assert callable(function), "it was described as callable"
    function_object: Callable[..., Value] = function
    return function_object


# Calling: with the arguments and in the form in which the trainer would call it.


def _call_once(
    function: Callable[..., Value],
    interface: str,
    arguments: Mapping[str, Value],
    text: str,
    extracted: str | None,
    messages: bool,
    token_ids: list[int] | None,
) -> Value:
    """What the function returns for one sample; a coroutine is awaited."""
    if interface == TRL:
        # TRL calls with lists, one entry per completion: here always one
        call_arguments: dict[str, Value] = {name: [value] for name, value in arguments.items()}
        prompt = arguments.get("prompts")
        call_arguments["prompts"] = [[{"role": "user", "content": prompt}] if messages else prompt]
        call_arguments["completions"] = [[{"role": "assistant", "content": text}] if messages else text]
        call_arguments |= {"trainer_state": _trainer_state(), "log_extra": _log, "log_metric": _log}
        if token_ids is not None:
            call_arguments["completion_ids"] = [token_ids]
    else:
        call_arguments = dict(arguments)
        call_arguments |= {"solution_str": text} if interface == VERL else {"text": text, "extracted": extracted}
    returned = _apply(function, call_arguments)
    if inspect.isawaitable(returned):
        import asyncio  # here: the process that only asks for judgements does not need it

        return asyncio.run(_awaited(returned))
    return returned


def _apply(function: Callable[..., Value], call_arguments: Mapping[str, Value]) -> Value:
    """Call with those arguments that the function has parameters for."""
    positional, keywords, accepts_any_keyword = [], {}, False
    for parameter in inspect.signature(function).parameters.values():
        accepts_any_keyword = accepts_any_keyword or parameter.kind is Parameter.VAR_KEYWORD
        if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL) or parameter.name not in call_arguments:
            continue
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            positional.append(call_arguments[parameter.name])
        else:
            keywords[parameter.name] = call_arguments[parameter.name]
    return function(*positional, **(dict(call_arguments) | keywords if accepts_any_keyword else keywords))


async def _awaited(awaitable: Awaitable[Value]) -> Value:
    return await awaitable


def _log(*_: Value, **__: Value) -> None:
    """TRL's log_extra and log_metric: there is no log to write to."""


def _trainer_state() -> object:
    """TRL's trainer_state at its start: transformers' own where the function has loaded it, else its fields."""
    if module := sys.modules.get("transformers.trainer_callback"):
        state: object = module.TrainerState()
        return state
    numbers = dict.fromkeys(("global_step", "max_steps", "num_train_epochs", "num_input_tokens_seen", "total_flos"), 0)
    unset_fields = dict.fromkeys(
        ("best_metric", "best_global_step", "best_model_checkpoint", "trial_name", "trial_params")
    )
    steps = {"logging_steps": 500, "eval_steps": 500, "save_steps": 500, "train_batch_size": None}
    flags = {"is_local_process_zero": True, "is_world_process_zero": True, "is_hyper_param_search": False}
    return SimpleNamespace(epoch=0.0, log_history=[], **numbers, **unset_fields, **steps, **flags)


@cache
def _tokenizer(name: str) -> Callable[[str], list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    return lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _token_ids(tokenizer: str, text: str) -> list[int]:
    return _tokenizer(tokenizer)(text)


def _error_text(error: Exception, call: Callable[[bool], Value] | None, messages: bool) -> str:
    """An exception in one line; where the other form of completions would not raise, how to choose it."""
    line = error_line(error)
    if call is None or not isinstance(error, TypeError | AttributeError | KeyError | IndexError | ValueError):
        return line
    try:
        call(not messages)
    except MemoryError:
        raise
    except Exception:
        return line
    return f"{line}. {OTHER_FORM.format(other=FORMS[not messages])}"


# Reading what it returned: correct, wrong, unread or failed, never a guess.


def read_verdict(returned: Value, interface: str, threshold: float) -> Judgement:
    """The judgement that a returned value means.

    Args:
        returned: a bool, a number, a dict with `score`, or None; from TRL's interface a list of one of them.
        interface: whose function it is. None is unread from ours, and "could not be judged" from a trainer's reward.
        threshold: a number from which on it means correct; True is correct whatever the threshold.
    """
    value = returned
    if interface == TRL:
        value = _plain_value(value)
        if not isinstance(value, list | tuple) or len(value) != 1:
            raise PluginError(
                f"returned {_short_repr(returned)} for one completion; return a list with one reward for each"
            )
        value = value[0]
    value = _plain_value(value)
    if isinstance(value, Mapping):
        if "score" not in value:
            raise PluginError(f"returned a dict without 'score', with {', '.join(map(str, value))[:100] or 'nothing'}")
        value = _plain_value(value["score"])
    if value is None:
        if interface == OFFLEASH:
            return Judgement(Verdict.UNREAD)
        return Judgement(Verdict.FAILED, "the function returned None: it could not judge the sample")
    if isinstance(value, bool):
        return Judgement(Verdict.CORRECT if value else Verdict.WRONG)
    if not isinstance(value, int | float):
        raise PluginError(f"returned {_short_repr(value)}; return a bool, a number, a dict with 'score', or None")
    if not math.isfinite(value):
        raise PluginError(f"returned {value}, which is not a score")
    return Judgement(Verdict.CORRECT if value >= threshold else Verdict.WRONG, score=float(value))


def _plain_value(value: Value) -> Value:
    """A NumPy array or scalar, or a tensor, as lists and numbers."""
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) and not isinstance(value, type) else value


def _short_repr(value: Value) -> str:
    try:
        text = repr(value)
    except Exception:  # the __repr__ of a user's object may raise
        text = "?"
    return f"{type(value).__name__} {text[:60]}"
