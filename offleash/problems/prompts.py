"""PROMPTS: from a question to the message a model gets, the same text for every model that is compared.

The wording of `boxed` is that of the DeepSeek-R1 and Qwen2.5-Math model cards, which the models of this field were
trained and evaluated with; `stdin` and `starter` say what LiveCodeBench's own prompts say, in our words.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from string import ascii_uppercase

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."

# Changing a text changes every prompt hash: runs drawn before could not be resumed or compared.
PROMPTS: dict[str, str] = {
    "plain": "{question}",
    "boxed": "{question}\n\n" + BOXED,
    "number": "{question}\n\n" + BOXED + " Give a decimal number{unit}.",
    "choice": (
        "{question}\n\n{choices}\n\n"
        "Please reason step by step, and put the letter of your final answer, and nothing else, within \\boxed{}."
    ),
    "tagged": "{question}\n\nAt the end, repeat your final answer, and nothing else, between <answer> and </answer>.",
    "short": "{question}\n\nGive a short answer. If you do not know it, say so.",
    "code": (
        "Complete the following Python function. Return the whole function, with the imports it needs, "
        "in one ```python code block.\n\n```python\n{question}\n```"
    ),
    "asserts": (
        "{question}\n\nYour Python code must pass this test:\n\n```python\n{tests}\n```\n\n"
        "Return the whole program in one ```python code block."
    ),
    "stdin": (
        "{question}\n\nWrite a Python program that reads its input from standard input and writes its answer to "
        "standard output. Return the whole program in one ```python code block."
    ),
    "starter": (
        "{question}\n\nStart from this code and keep its names:\n\n```python\n{starter}\n```\n\n"
        "Return the whole program in one ```python code block."
    ),
}


def prompt(name: str, question: str, details: Mapping[str, object]) -> str:
    """The message that a model gets for a question.

    Args:
        name: Key in PROMPTS.
        question: The question.
        details: Of the problem; choices, unit, tests and starter code are filled in where the prompt has a place.

    >>> prompt("number", "How fast?", {"unit": "m/s"}).endswith("number in the unit m/s, without the unit.")
    True
    """
    return fill_template(PROMPTS[name], {"question": question, **detail_parts(details)})


def detail_parts(details: Mapping[str, object]) -> dict[str, str]:
    """What the details of a problem add to its prompt, by the name of the place: texts, '' where there is none."""
    unit = " ".join(str(details.get("unit") or "").split())
    return {
        "choices": choices(_texts(details.get("choices"))),
        "unit": f" in the unit {unit}, without the unit" if unit else "",
        "tests": "\n".join(_texts(details.get("tests"))[:1]),
        "starter": str(details.get("starter") or "").strip("\n"),
    }


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """The template with its places filled: `{name}`, for the names given; other braces are text, as in LaTeX.

    One pass: a question that contains `{choices}` itself is left as it is.
    """
    names = "|".join(map(re.escape, parts))
    return re.sub(rf"{{{{ *({names}) *}}}}|{{({names})}}", lambda match: parts[match[1] or match[2]], template)


def choices(texts: Sequence[str]) -> str:
    """The options of a question, a letter in front of each."""
    return "\n".join(f"{letter}. {text}" for letter, text in zip(ascii_uppercase, texts, strict=False))


def prompt_hash(text: str) -> str:
    """Hash of a prompt, every character of it: runs with different prompts are not comparable."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list | tuple) else []
