"""LaTeX as models write it, rewritten into the form that math-verify parses in full; the answer inside a gold text.

Linear in the text; nothing is evaluated.
"""

import re
from functools import lru_cache

from offleash.verifiers.extraction.marks import after_hashes, boxed, has_box
from offleash.verifiers.extraction.sentences import stated_answer

LONG_GOLD = 300  # characters; a longer gold is a worked solution whose answer has to be found
_WHOLE_FORMULA = re.compile(r"\s*(?:\$\$(.+?)\$\$|\$([^$]+)\$|\\\[(.+?)\\\]|\\\((.+?)\\\))\s*\.?\s*", re.DOTALL)
_SCALE_WORDS = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12,
}  # fmt: skip
_SCALED_NUMBER = re.compile(
    rf"(\d)\s*(?:\\text\s*\{{\s*|\\mathrm\s*\{{\s*|\\\s)?\s*({'|'.join(_SCALE_WORDS)})s?\b\s*(?:\}}|(?=\s|$|[a-z]))",
    re.IGNORECASE,
)
_NO_UNIT = (
    "and|or|to|out|times|million|billion|thousand|hundred|trillion|squared|cubed|factorial|plus|over|mod|pi|percent|per"
)
_NUMBER_WITH_WORDS = re.compile(  # a number and words: "5 dollars"
    rf"^(\s*-?\\?\$?(?:[\d,]*\d)(?:\.\d+)?)\s+((?!(?:{_NO_UNIT})\b)"
    r"[A-Za-z]{2,}(?:\s+[A-Za-z]+){0,8}(?:\^\{?[23]\}?|/[a-z]+)?)\.?$"
)
_SPACED_THOUSANDS = re.compile(r"\s*-?\d{1,3}(?:(?:\\ |\s)\d{3})+\s*")  # thousands set apart by spaces
_NO_MEANING = re.compile(
    r"\\(?:left|right)(?![A-Za-z])|\\[!,;:]|(?<=[\d{}()\[\],+*/=^-])\s+(?=[\\{}()\[\],+*/=^-])"
    r"|(?<=[{}()\[\],+*/=^-])\s+(?=[\w\\])"
)
_TOKEN = re.compile(r"\\(?:text|mathrm|mbox)[a-z]*\s*\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]{3,}|[A-Za-z]")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\overline\s*\{?(\d{1,12})\}?")
# Applied in order: characters of other alphabets first, so that the later rules need to know one form only.
_CLEANING_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"−|–|﹣|－", "-"),  # minus signs of other alphabets
        (r"(?<!\\)~|[\u2000-\u200a\u00a0\u202f]", " "),
        (r"，|、", ", "),
        (r"`", ""),
        (r"½", r"\\frac{1}{2}"),
        (r"⅓", r"\\frac{1}{3}"),
        (r"⅔", r"\\frac{2}{3}"),
        (r"¼", r"\\frac{1}{4}"),
        (r"¾", r"\\frac{3}{4}"),
        (r"\\varnothing(?![A-Za-z])|∅|^\\\{\s*\\\}$", r"\\emptyset "),
        (r"\\\\\[-?[\d.]+\s*(?:pt|em|ex|mm|cm|in)\]", r"\\\\ "),
        (r"\^\s*(-\d+)", r"^{\1}"),
        (r"√\s*\(([^()]{1,200})\)", r"\\sqrt{\1}"),
        (r"\\sqrt\s*\[(\d+)\]\s*(\w)", r"\\sqrt[\1]{\2}"),
        (  # degrees inside a function
            r"\\(sin|cos|tan|cot|sec|csc)\s*(\(?|\{?)\s*(\d+(?:\.\d+)?)\s*\^\s*\{?\s*\\circ\s*\}?",
            r"\\\1 \2\\frac{\3\\pi}{180}",
        ),
        (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
        (r"(?<![A-Za-z\\_\d.^{])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})(?![\w.])", r"\1\\times 10^{\2}"),
        (r"(?<![\d.,/{}])(\d+)\s+(\d+)/(\d+)(?![\d/])", r"\1\\frac{\2}{\3}"),
        (r"×", r"\\times "),
        (r"÷", r"\\div "),
        (r"·|⋅", r"\\cdot "),
        (r"π", r"\\pi "),
        (r"√\s*(\d+)", r"\\sqrt{\1}"),
        (r"°", r"^\\circ"),
        (r"²", "^2"),
        (r"³", "^3"),
        (r"≤", r"\\le "),
        (r"≥", r"\\ge "),
        (r"≠", r"\\ne "),
        (r"∞", r"\\infty "),
        (r"(?<=\d)\s*\{\s*,\s*\}\s*(?=\d{3})", ","),
        (r"(?<=\d),\\!\s*(?=\d{3})", ","),
        (r"(?<=\d)\\,(?=\d{3}(?!\d))", ""),
        (r"\\q?quad(?![A-Za-z])", ", "),
        (r"\\q?quad(?=[A-Za-z]_)", ", "),
        (r"\\mathrm\s*\{\s*([a-z])\s*\}", r"{\1}"),
        (r"\*\*", "^"),
        (r"\\sqrt\s*\(([^()]{1,200})\)", r"\\sqrt{\1}"),
        (r"(?<![\\A-Za-z])sqrt\s*\(([^()]{1,200})\)", r"\\sqrt{\1}"),
        (r"(?<![\\A-Za-z])pi(?![A-Za-z])", r"\\pi "),
        (r"(?<![\\A-Za-z])(sin|cos|tan|log|ln|exp)\s*\(", r"\\\1("),
        (r"\\(?:display|text|script)style(?![A-Za-z])", ""),
        (r'\\?["“”]', ""),
        (r"\$\s*(?:and|or|,)\s*\$", ","),
        (r",?\s*\\(?:text|mathrm|mbox)\s*\{\s*,?\s*(?:and|or)\s*,?\s*\}\s*,?", ", "),
        (r"(?<=[\d})])\s+(?:and|or)\s+(?=[-\d\\({])", ", "),
        (r",(?:\s*,)+", ","),
    ]
)


@lru_cache(maxsize=4096)
def gold_text(gold: str) -> str:
    """The answer in a gold text: in its box, after its hashes, between its dollars, or all of it."""
    text = gold.strip()
    if has_box(text):
        return (boxed(text) or text).strip()
    if len(text) > LONG_GOLD or "####" in text:
        text = after_hashes(text) or stated_answer(text, truncated=False) or text
    return inside_delimiters(text)


def inside_delimiters(text: str) -> str:
    """A formula without the dollars or brackets around it."""
    whole = _WHOLE_FORMULA.fullmatch(text)
    return next(part for part in whole.groups() if part is not None).strip() if whole else text.strip()


def without_spaces(text: str) -> str:
    """The text without what changes nothing in a formula: spaces around signs, sizes of brackets and fractions."""
    text = _NO_MEANING.sub("", text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac"))
    return re.sub(r"(\\[A-Za-z]+)\s+(?=[\d\\(])", r"\1", text)


def clean_latex(text: str) -> str:
    """The text in the parser's own LaTeX: one minus sign, thousands joined, commas between values."""
    text = inside_delimiters(text)
    if "\\\\" in text and "\\begin" not in text.replace("\\\\begin", ""):
        text = re.sub(r"\\\\(?=[A-Za-z(){}\[\],;!])", r"\\", text)  # escaped twice, as in a JSON string
    for pattern, replacement in _CLEANING_RULES:
        text = pattern.sub(replacement, text)
    if _SPACED_THOUSANDS.fullmatch(text):
        text = re.sub(r"[\\\s]", "", text)
    text = _SCALED_NUMBER.sub(lambda match: f"{match[1]}\\times 10^{{{_SCALE_WORDS[match[2].lower()]}}}", text)
    text = _REPEATING.sub(_as_fraction, text)
    if text.count("\\pm") == 1 and "," not in text and "\\mp" not in text and "{" in text:  # inside a fraction, say
        text = text.replace("\\pm", "+") + ", " + text.replace("\\pm", "-")
    text = text.replace("\\$", "").replace("$", "").strip()
    return _NUMBER_WITH_WORDS.sub(r"\1\\text{ \2}", text)


def distinguish_capitals(gold: str, answer: str) -> tuple[str, str]:
    """Both formulas with capitals renamed where a formula has the small letter too: the parser reads N as n."""
    clashing_capitals = {
        x for text in (gold, answer) for x in _symbols(text) if x.isupper() and x.lower() in _symbols(text)
    }
    if not clashing_capitals:
        return gold, answer
    used = {symbol.lower() for symbol in _symbols(gold) | _symbols(answer)}
    free_letters = (letter for letter in "wqzvujkmph" if letter not in used)
    names = dict(zip(sorted(clashing_capitals), free_letters, strict=False))
    return _rename_symbols(gold, names), _rename_symbols(answer, names)


def _symbols(text: str) -> set[str]:
    return {token for token in _TOKEN.findall(text) if len(token) == 1}


def _rename_symbols(text: str, names: dict[str, str]) -> str:
    return _TOKEN.sub(lambda match: names.get(match[0], match[0]), text)


def _as_fraction(match: re.Match[str]) -> str:
    r"""A repeating decimal as the fraction it is: `0.1\overline{6}` = (16 - 1) / 90."""
    whole, fixed_digits, repeat = match[1] or "0", match[2], match[3]
    denominator = (10 ** len(repeat) - 1) * 10 ** len(fixed_digits)
    numerator = int(whole + fixed_digits + repeat) - int(whole + fixed_digits)
    return f"\\frac{{{numerator}}}{{{denominator}}}"
