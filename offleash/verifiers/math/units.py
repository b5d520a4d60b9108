"""Units of numbers in formulas: told by their font or after a bare number, since a lone letter is a variable."""

import re

TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm)\s*\{([^{}]*)\}")
_FONT = r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\s*\^\s*(?:\{\s*-?\d+\s*\}|\d))?"
UNITED = re.compile(_FONT)  # words in a formula, with the exponent of a unit
_LAST_WORDS = re.compile(rf"(?<=[\d}}\s)!])(?:\\[,;: ]|\s)*{_FONT}\s*$")
_BARE = re.compile(
    r"^(-?[\d.,{}\\!]*\d)(?:\s*(?:km|cm|mm|dm|kg|mg|ml|mL|ft|lb|oz|yd|hr|min)(?:\^\{?[23]\}?)?|\s+[mgshlL])\s*$"
)
UNITS = {
    "length": "mm cm dm m km in ft yd mi|millimeter centimeter decimeter meter kilometer inch foot yard mile",
    "mass": "mg g kg t lb oz|milligram gram kilogram ton pound ounce",
    "time": "ms s min h d|millisecond second minute hour day",
    "volume": "ml l|milliliter liter",
    "money": "cents dollars|cent dollar",
}


def unitless(text: str) -> str:
    """Without the unit at its end, told by its font or after a bare number; a lone letter is a variable otherwise."""
    return _BARE.sub(r"\1", _LAST_WORDS.sub("", text) or text)


def unit(text: str) -> str:
    """The unit of a number, where it is one of the few whose confusion is known to matter."""
    blocks = [block.strip().lower().rstrip(".") for block in TEXT.findall(text)]
    trailing = re.search(r"\d\s*([A-Za-z]+)\.?$", text)
    for word in [*blocks, *([trailing[1].lower()] if trailing else [])]:
        for group in UNITS.values():
            short, long = (part.split() for part in group.split("|"))
            for name, full in zip(short, long, strict=True):
                if word in (name, full, f"{full}s", f"{full[:-2]}eet" if full == "foot" else full, f"{full}es"):
                    return name
    return ""
