"""Units of measurement as far as answers need them: a small table, and a parser for texts such as `kJ mol^-1`.

No dimension is guessed: a text with one unknown word is not a unit, and the caller compares numbers alone. Missing
moles and angles are accepted (`kJ` for `kJ/mol`, `1/s` for `rad/s`), since people leave them out.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

# Exponents of metre, kilogram, second, ampere, kelvin, mole, radian and dollar.
BASE_UNITS = ("m", "kg", "s", "A", "K", "mol", "rad", "$")
IGNORED_BASES = (5, 6)  # places of mole and radian among BASE_UNITS

# Symbols that take an SI prefix, each with its size in base units (CODATA 2018 where measured).
PREFIXABLE_UNITS: dict[str, tuple[str, str]] = {
    "m": ("1", "m"),
    "g": ("1/1000", "kg"),
    "s": ("1", "s"),
    "A": ("1", "A"),
    "K": ("1", "K"),
    "mol": ("1", "mol"),
    "rad": ("1", "rad"),
    "N": ("1", "kg m s-2"),
    "J": ("1", "kg m2 s-2"),
    "W": ("1", "kg m2 s-3"),
    "Pa": ("1", "kg m-1 s-2"),
    "Hz": ("1", "s-1"),
    "C": ("1", "A s"),
    "V": ("1", "kg m2 s-3 A-1"),
    "Ω": ("1", "kg m2 s-3 A-2"),
    "F": ("1", "kg-1 m-2 s4 A2"),
    "T": ("1", "kg s-2 A-1"),
    "H": ("1", "kg m2 s-2 A-2"),
    "Wb": ("1", "kg m2 s-2 A-1"),
    "L": ("1/1000", "m3"),
    "l": ("1/1000", "m3"),
    "eV": ("1.602176634e-19", "kg m2 s-2"),
    "cal": ("4.184", "kg m2 s-2"),
    "bar": ("100000", "kg m-1 s-2"),
    "M": ("1000", "mol m-3"),
    "pc": ("3.0856775814913673e16", "m"),
}
PREFIXES = {"f": -15, "p": -12, "n": -9, "µ": -6, "u": -6, "m": -3, "c": -2, "d": -1, "k": 3, "M": 6, "G": 9, "T": 12}
# Units that take no prefix: `mmin` or `kft` is no unit but a misread word.
UNPREFIXED: dict[str, tuple[str, str]] = {
    "min": ("60", "s"),
    "h": ("3600", "s"),
    "hr": ("3600", "s"),
    "d": ("86400", "s"),
    "month": ("2629800", "s"),
    "yr": ("31557600", "s"),
    "atm": ("101325", "kg m-1 s-2"),
    "torr": ("101325/760", "kg m-1 s-2"),
    "mmHg": ("133.322387415", "kg m-1 s-2"),
    "psi": ("6894.757293168", "kg m-1 s-2"),
    "u": ("1.66053906660e-27", "kg"),
    "amu": ("1.66053906660e-27", "kg"),
    "Da": ("1.66053906660e-27", "kg"),
    "D": ("3.33564e-30", "A s m"),
    "Å": ("1e-10", "m"),
    "AU": ("149597870700", "m"),
    "ly": ("9460730472580800", "m"),
    "in": ("0.0254", "m"),
    "ft": ("0.3048", "m"),
    "mi": ("1609.344", "m"),
    "mph": ("0.44704", "m s-1"),
    "kph": ("1/3.6", "m s-1"),
    "kmph": ("1/3.6", "m s-1"),
    "lb": ("0.45359237", "kg"),
    "lbs": ("0.45359237", "kg"),
    "oz": ("0.028349523125", "kg"),
    "°": (repr(math.pi / 180), "rad"),
    "°C": ("1", "K"),
    "°F": ("5/9", "K"),
    "%": ("1/100", ""),
    "ppm": ("1/1000000", ""),
}
WORDS = {
    "meter": "m", "metre": "m", "gram": "g", "gm": "g", "second": "s", "sec": "s", "ampere": "A", "amp": "A",
    "kelvin": "K", "mole": "mol", "radian": "rad", "newton": "N", "joule": "J", "watt": "W", "pascal": "Pa",
    "hertz": "Hz", "coulomb": "C", "volt": "V", "ohm": "Ω", "farad": "F", "tesla": "T", "henry": "H", "weber": "Wb",
    "liter": "L", "litre": "L", "electronvolt": "eV", "calorie": "cal",
}  # fmt: skip
UNPREFIXED_WORDS = {
    "minute": "min", "hour": "h", "day": "d", "month": "month", "year": "yr", "atmosphere": "atm", "inch": "in",
    "inches": "in",
    "foot": "ft", "feet": "ft", "mile": "mi", "pound": "lb", "ounce": "oz", "degree": "°", "deg": "°", "celsius": "°C",
    "fahrenheit": "°F", "angstrom": "Å", "torr": "torr",
}  # fmt: skip
PREFIX_WORDS = {"femto": "f", "pico": "p", "nano": "n", "micro": "µ", "milli": "m", "centi": "c", "deci": "d"}
PREFIX_WORDS |= {"kilo": "k", "mega": "M", "giga": "G"}
# Letters in the wrong case, as textbooks and models write them.
COMMON_MISSPELLINGS = {
    "KJ": "kJ",
    "Kg": "kg",
    "KG": "kg",
    "KM": "km",
    "Km": "km",
    "kPA": "kPa",
    "KPa": "kPa",
    "ML": "mL",
}
SCALE_WORDS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
ABSOLUTE_ZERO_OFFSETS = {"°C": Fraction("273.15"), "°F": Fraction("459.67")}  # what to add to reach absolute zero

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺"
FROM_SUPERSCRIPT = str.maketrans(SUPERSCRIPTS, "0123456789-+")
TEMPERATURE = re.compile(r"(?:\bdegrees? ?|\bdeg ?|°) ?(celsius|fahrenheit|[CF])\b", re.IGNORECASE)
TOKEN = re.compile(rf"([A-Za-zµΩÅ°%]+)([{SUPERSCRIPTS}]*)|10\^([-+]?[0-9]{{1,3}})|([*/()-])|(\s+)")


@dataclass(frozen=True)
class Unit:
    """A unit in base units: its size, its dimensions, the power of ten written before it, and its zero."""

    size: Fraction
    dimensions: tuple[int, ...]
    scale: Fraction  # part of the size: 1/1000 for `10^{-3} s`
    zero: Fraction | None = None  # for temperatures that do not start at absolute zero

    def agrees(self, other: "Unit") -> bool:
        """Do both measure the same thing? A mole or an angle more or less is forgiven."""
        pairs = enumerate(zip(self.dimensions, other.dimensions, strict=True))
        return all(own_power == other_power for i, (own_power, other_power) in pairs if i not in IGNORED_BASES)

    def convert(self, value: Fraction, target: "Unit") -> Fraction:
        """A value in this unit, in the other one."""
        absolute = (value + (self.zero or 0)) * self.size
        return absolute / target.size - (target.zero or 0)


@lru_cache(4096)
def readings(text: str) -> tuple[Unit, ...]:
    """What a unit's text, cleaned by `numerals.plain`, can mean: nothing, one thing, or two (`J/mol K`)."""
    single_divisor, divide_rest = _read_unit(text, divide_rest=False), _read_unit(text, divide_rest=True)
    if single_divisor is None:
        return ()
    return (single_divisor,) if divide_rest is None or divide_rest == single_divisor else (single_divisor, divide_rest)


@lru_cache(4096)
def leading_unit(text: str) -> str:
    """The longest beginning of a text that is a unit: `km` of `km away`; empty when there is none."""
    words = text.split(" ")[:8]
    for count in range(len(words), 0, -1):
        part = " ".join(words[:count])
        # `5 in total` is not in inches
        if readings(part) and not (words[count - 1] in ("in", "u", "d", "M") and count < len(words)):
            return part
    return ""


def _read_unit(text: str, *, divide_rest: bool) -> Unit | None:
    """A unit's text with a slash that holds for the next factor, or (`divide_rest`) for all that follow."""
    size, scale, dimensions = Fraction(1), Fraction(1), [0] * len(BASE_UNITS)
    in_denominator, inside, named = False, False, 0
    last = ""
    for kind, word, power in _tokens(text):
        if kind == "scale":
            scale *= Fraction(10) ** power
        elif kind == "mark":
            if word == "(":
                if inside:
                    return None
                inside = True
            elif word == ")":
                inside = False
                in_denominator = in_denominator and divide_rest
            elif word == "/":
                in_denominator = True
        elif kind == "unit":
            symbol = _symbol(word)
            if symbol is None:
                return None
            power = -power if in_denominator else power
            size *= symbol[0] ** power
            dimensions = [exponent + power * more for exponent, more in zip(dimensions, symbol[1], strict=True)]
            named, last = named + 1, word if power == 1 else ""
            in_denominator = in_denominator and (divide_rest or inside)
        else:
            return None
    if not named and scale == 1:
        return None
    zero = ABSOLUTE_ZERO_OFFSETS.get(_name(last)) if named == 1 else None
    return Unit(size * scale, tuple(dimensions), scale, zero)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Units with their exponents, powers of ten, and marks; anything else is `unknown`."""
    text = text.strip(" .,;:")
    text = TEMPERATURE.sub(lambda match: "°" + match[1][0].upper(), text)
    position, micro = 0, ""
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None or position > 200:
            yield "unknown", text[position : position + 20], 0
            return
        position = match.end()
        word, exponent_text, power_of_ten, mark, _ = match.groups()
        if power_of_ten:
            yield "scale", "", int(power_of_ten)
        elif mark:
            yield "mark", mark, 0
        elif word == "per":
            yield "mark", "/", 0
        elif word == "µ":
            micro = "µ"
        elif word and word.lower() in SCALE_WORDS:
            yield "scale", "", SCALE_WORDS[word.lower()]
        elif word:
            yield from _split(micro + word, _exponent(exponent_text))
            micro = ""


def _exponent(exponent_text: str) -> int:
    """An exponent in raised digits; 1 where there is none, 99 where it cannot be read, which no unit has."""
    digits = exponent_text.translate(FROM_SUPERSCRIPT)
    return int(digits) if re.fullmatch(r"[-+]?[0-9]{1,2}", digits) else 1 if not digits else 99


def _split(word: str, power: int) -> Iterator[tuple[str, str, int]]:
    """A word as one unit, or as two that were written together: `JK`, `kJmol`, `Nm`, `kWh`."""
    if power == 99:
        yield "unknown", word, 0
        return
    if _symbol(word) is None:
        for last in ("mol", "K", "m", "s", "h", "C"):
            first = word.removesuffix(last)
            if first != word and len(first) < 4 and _symbol(first) is not None:
                yield "unit", first, 1
                yield "unit", last, power
                return
    yield "unit", word, power


def _name(word: str) -> str:
    """A unit's word as its symbol: `kilometres` as `km`."""
    if word in COMMON_MISSPELLINGS:
        return COMMON_MISSPELLINGS[word]
    lowercase = word.lower()
    for form in (lowercase, lowercase.removesuffix("s")):
        if form in UNPREFIXED_WORDS:
            return UNPREFIXED_WORDS[form]
        if form in WORDS:
            return WORDS[form]
        for prefix_word, prefix_symbol in PREFIX_WORDS.items():
            rest = form.removeprefix(prefix_word)
            if rest != form and rest in WORDS:
                return prefix_symbol + WORDS[rest]
    return word


@cache
def _dimensions(text: str) -> tuple[int, ...]:
    powers = dict.fromkeys(BASE_UNITS, 0)
    for part in text.split():
        match = re.fullmatch(r"([a-zA-Z$]+)(-?[0-9]+)?", part)
        assert match is not None
        powers[match[1]] += int(match[2] or 1)
    return tuple(powers.values())


def _symbol(word: str) -> tuple[Fraction, tuple[int, ...]] | None:
    """Size and dimensions of one unit, or None."""
    if len(word) > 20:
        return None
    if word.lower() in ("dollar", "dollars", "usd"):
        return Fraction(1), _dimensions("$")
    if word.lower() in ("cent", "cents"):
        return Fraction(1, 100), _dimensions("$")
    name = _name(word)
    for table in (UNPREFIXED, PREFIXABLE_UNITS):
        if name in table:
            return _size(table[name][0]), _dimensions(table[name][1])
    if name[:1] in PREFIXES and name[1:] in PREFIXABLE_UNITS:
        size, dimensions = PREFIXABLE_UNITS[name[1:]]
        return _size(size) * Fraction(10) ** PREFIXES[name[0]], _dimensions(dimensions)
    return None


@cache
def _size(text: str) -> Fraction:
    """A size of the tables as an exact fraction: `101325/760`, `1.602176634e-19`."""
    above, _, below = text.partition("/")
    return Fraction(above) / Fraction(below or "1")
