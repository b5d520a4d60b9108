r"""Numbers and their units in the text of an answer: LaTeX, Markdown and typography stripped, values exact.

Nothing is evaluated: a numeral is digits with an optional power (`1.2 \times 10^{3}`, `2^{10}`) over an optional
denominator. Text, digits and exponents are bounded first, so hostile text costs no more than honest text.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from offleash.verifiers.number.units import SCALE_WORDS, SUPERSCRIPTS

LONGEST = 2000  # characters of a number with its words and unit
DIGITS = 1000  # of a numeral, and the largest power of ten
MAX_POWER_BITS = 6000  # of a written-out power such as 2^{1009}

TO_SUPERSCRIPT = str.maketrans("0123456789-+", SUPERSCRIPTS)
CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("−﹣‐‑‒–—", "-"),
        **dict.fromkeys("×·⋅∙∗", "*"),
        **dict.fromkeys("÷⁄∕", "/"),
        **dict.fromkeys("≈≃≅∼≒", "≈"),
        **dict.fromkeys("°º˚", "°"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", ""),
        **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
        "\u03bc": "µ",  # the Greek letter as the sign of the prefix, and the signs of units as their letters
        "\u2126": "Ω",
        "\u212b": "\u00c5",
        "℃": "°C",
        "℉": "°F",
        **{sign: f" {above}/{below}" for sign, above, below in ("½12", "¼14", "¾34", "⅓13", "⅔23", "⅛18")},
        **dict.fromkeys("€£¥", " "),
        "√": "\\sqrt ",
        "π": "\\pi ",
    }
)
SIGNED_DECIMAL = r"[-+]?\s*[0-9][0-9,]*(?:\.[0-9]*)?|[-+]?\s*\.[0-9]+"
# In order. Every pattern is linear, or runs over at most LONGEST characters of which white space is single.
CLEANING_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"([{SUPERSCRIPTS}]+)", r"^{\1}"),
        (r"\\(?:left|right|displaystyle|textstyle|bigl?|bigr|Bigl?|Bigr|!)(?![A-Za-z])", ""),
        (
            r"\\(?:text|math)(?:rm|bf|it|sf|normal)(?![A-Za-z])|\\(?:text|rm|bf|[fm]?box|boxed|operatorname)(?![A-Za-z])",
            " ",
        ),
        (r"\{,\}", ","),
        (r"\\[()\[\]]|`", " "),
        (r"\\[,;: ]|~|\\q?quad(?![A-Za-z])|\\\\", " "),
        (r"(-)\s*\\?\$\s*", r"\1"),
        (r"\\?\$", " "),
        (r"\\%|\b[Pp]er ?cent\b", "%"),
        (r"\\(?:times|cdot|ast|bullet)(?![A-Za-z])", "*"),
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\(?:approx|simeq|cong|sim)(?![A-Za-z])", "≈"),
        (r"\\(?:pm|mp)(?![A-Za-z])|\+\s*/\s*-", "±"),
        (r"(?:\{\s*\}\s*)?\^?\s*\{?\s*(?:\\circ|\\degree|°)\s*\}?", " °"),
        (r"\\mu(?![A-Za-z])", "µ"),
        (r"\\Omega(?![A-Za-z])", "Ω"),
        (r"\\AA(?![A-Za-z])|\\mathring\s*\{\s*A\s*\}", "Å"),
        (r"\\hat\s*\{\s*\{?[^{}]*\}?\s*\}", " "),
        (r"(?<=[0-9A-Za-z])\s*(?=\\[dtc]?frac)", " "),
        (rf"\\[dtc]?frac\s*\{{\s*({SIGNED_DECIMAL})\s*\}}\s*\{{\s*({SIGNED_DECIMAL})\s*\}}", r"\1/\2 "),
        (r"\\[dtc]?frac\s*([0-9])\s*([0-9])", r"\1/\2 "),
        (r"(?<=[A-Za-z)}])_\s*(?:\{\s*\{?[^{}]*\}?\s*\}|[A-Za-z0-9])", ""),
        (r"(?<=[0-9])\s*\*\*\s*(?=[-+]?[0-9])", "^"),
        (r"\*\*|(?<![A-Za-z0-9])__|__(?![A-Za-z0-9])", " "),
        (rf"\s*\^\s*[{{(]?\s*([-+]?)\s*([{SUPERSCRIPTS}]+|[0-9]+)\s*[}})]?(?![0-9])", r"^\1\2"),
        (r"(?<![^\s(])\*([^*\s][^*]*)\*(?![A-Za-z0-9])", r"\1"),
        (r"[{}]", ""),
        (r"(?i)\b(?:minus|negative)\s+(?=[0-9.])", "-"),
        (r"-\s*\(\s*(?=[0-9.])", "-"),
        (r"(?<=[0-9.])\s*[xX]\s*(?=10\s*\^)", "*"),
        (r"\s+", " "),
    )
)
NOTHING_TO_CLEAN = re.compile(r"[-+]?[0-9.]+")
CARET_EXPONENT = re.compile(r"(?<=[A-Za-zµΩÅ°)])\s?\^([-+]?[0-9]+)(?![0-9.])")
ATTACHED_EXPONENT = re.compile(r"(?<=[A-Za-zµΩ])(?<![0-9.][eE])(-?[0-9])(?![0-9]|\.[0-9])")

WHOLE_DIGITS = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9])|[0-9]+)"
MANTISSA = rf"(?:{WHOLE_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
POWER = r"(?:[eE]([-+]?[0-9]+))?(?:(?: ?\* ?| )10 ?\^ ?([-+]?[0-9]+))?(?: ?\^ ?([-+]?[0-9]+)(?![0-9.]))?"
NUMERAL = re.compile(
    rf"(?<![A-Za-z0-9_.^])(?P<sign>[-+] ?)?"
    rf"(?:(?P<units>[0-9]+) (?P<above>[1-9][0-9]*)/(?P<below>[1-9][0-9]*)(?![0-9.])"
    rf"|(?P<top>{MANTISSA}){POWER}(?: ?/ ?(?P<bottom_sign>[-+]?)(?P<bottom>{MANTISSA}){POWER})?)"
    rf"(?: (?P<scale>{'|'.join(SCALE_WORDS)})(?![A-Za-z]))?"
)


@dataclass(frozen=True)
class Quantity:
    """A number and the text that stood after it."""

    value: Fraction
    unit: str
    is_attached: bool  # that text began without a space: `3x`
    start: int
    end: int


class NotANumberError(ValueError):
    """The text holds a numeral that cannot be read; the message says why."""


def plain(text: str) -> str:
    """A text without LaTeX, markdown and typography; exponents of units raised (`m^{-2}` as `m⁻²`)."""
    text = " ".join(text.split())
    if len(text) > LONGEST:
        raise NotANumberError(f"{len(text):,} characters are too many for a number")
    if NOTHING_TO_CLEAN.fullmatch(text):
        return text
    text = " ".join(text.translate(CHARACTERS).split())
    for pattern, replacement in CLEANING_RULES:
        text = pattern.sub(replacement, text)
    # the exponents of digits come down, those of letters stay up: no numeral can be taken from a unit
    text = re.sub(
        rf"[{SUPERSCRIPTS}]+", lambda match: match[0].translate(str.maketrans(SUPERSCRIPTS, "0123456789-+")), text
    )
    text = CARET_EXPONENT.sub(lambda match: match[1].translate(TO_SUPERSCRIPT), text)
    text = ATTACHED_EXPONENT.sub(lambda match: match[1].translate(TO_SUPERSCRIPT), text)
    return text.strip(" *_")


def quantities(text: str) -> list[Quantity]:
    """Every number of a cleaned text, with what stands between it and the next one."""
    matches = list(NUMERAL.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    result = []
    for match, end in zip(matches, ends, strict=False):
        _check_sign(match, text)
        if re.match(r"\.[0-9]", text[match.end() :][:2]):
            raise NotANumberError("a number with two decimal points")
        unit = text[match.end() : end]
        result.append(Quantity(_value(match), unit.strip(), not unit.startswith(" "), match.start(), match.end()))
    return result


def canonical(value: Fraction) -> str:
    """One text for one number: an integer or decimal where it is short, `p/q` otherwise."""
    if value.denominator == 1:
        return _number_text(value.numerator)
    rest, decimals = value.denominator, 0
    while rest % 10 == 0:
        rest, decimals = rest // 10, decimals + 1
    for prime in (2, 5):
        while rest % prime == 0:
            rest, decimals = rest // prime, decimals + 1
    if rest != 1 or decimals > 40:
        return f"{_number_text(value.numerator)}/{_number_text(value.denominator)}"
    digits = str(abs(value.numerator) * 10**decimals // value.denominator).rjust(decimals + 1, "0")
    decimal = f"{digits[:-decimals]}.{digits[-decimals:]}".rstrip("0")
    return f"-{decimal}" if value < 0 else decimal


def _number_text(number: int) -> str:
    """An integer as text; in hexadecimal where it nears the number of digits that Python refuses to write."""
    return str(number) if number.bit_length() < 2 * MAX_POWER_BITS else hex(number)


def _check_sign(match: re.Match[str], text: str) -> None:
    """A lone dash between words and a number may be a minus or a dash: neither is taken."""
    before = text[: match.start()].rstrip()
    if match["sign"] in ("- ", "+ ") and before and before[-1] not in "=:(≈":
        raise NotANumberError("a sign separated from its number")
    if before.endswith(("-", "+", "±")) and match["sign"]:
        raise NotANumberError("two signs before a number")


def _value(match: re.Match[str]) -> Fraction:
    """The exact value of a numeral: mixed number, or mantissa with powers, over a denominator if there is one."""
    sign = -1 if (match["sign"] or "").startswith("-") else 1
    scale = Fraction(10) ** SCALE_WORDS[match["scale"]] if match["scale"] else Fraction(1)
    if match["units"]:
        whole, numerator, denominator = (_decimal(match[name]) for name in ("units", "above", "below"))
        if numerator >= denominator:
            raise NotANumberError("a mixed number whose fraction is not below one")
        return sign * (whole + numerator / denominator) * scale
    groups = match.groups()
    top_group = match.re.groupindex["top"]
    value = _with_exponent(groups[top_group - 1], *groups[top_group : top_group + 3])
    if match["bottom"]:
        bottom_group = match.re.groupindex["bottom"]
        divisor = _with_exponent(groups[bottom_group - 1], *groups[bottom_group : bottom_group + 3])
        if divisor == 0:
            raise NotANumberError("a division by zero")
        value = value / divisor * (-1 if match["bottom_sign"] == "-" else 1)
    return sign * value * scale


def _with_exponent(mantissa: str, exponent: str | None, power_of_ten: str | None, power: str | None) -> Fraction:
    value = _decimal(mantissa)
    if power is not None:
        if exponent or power_of_ten:
            raise NotANumberError("a power of a power")
        value = _power(value, _integer(power, MAX_POWER_BITS))
    for shift in (exponent, power_of_ten):
        if shift:
            value *= Fraction(10) ** _integer(shift)
    return value


def _decimal(text: str) -> Fraction:
    digits = text.replace(",", "").replace(" ", "")
    if len(digits) > DIGITS:
        raise NotANumberError(f"a number of {len(digits):,} digits")
    return Fraction(f"0{digits}0" if digits.endswith(".") else f"0{digits}")


def _integer(text: str, limit: int = DIGITS) -> int:
    if len(text) > 6 or abs(int(text)) > limit:
        raise NotANumberError(f"an exponent beyond {limit}")
    return int(text)


def _power(base: Fraction, exponent: int) -> Fraction:
    """A power, computed only once its size is known to be within MAX_POWER_BITS."""
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(exponent)
    if bits > MAX_POWER_BITS:
        raise NotANumberError("a power too large to write out")
    if base == 0 and exponent <= 0:
        raise NotANumberError("a power of zero")
    return base**exponent
