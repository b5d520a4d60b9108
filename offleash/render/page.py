"""The templates of the page: everything put into them is escaped, and what cannot be seen is made visible."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from offleash.render.escape import visible

HERE = Path(__file__).parent / "assets"


@cache
def template(name: str) -> Template:
    """A template by the name of its file."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    place = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    place.finalize = lambda value: visible(value) if type(value) is str else value  # Markup is ours, a str is not
    return place
