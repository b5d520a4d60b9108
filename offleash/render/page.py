"""The HTML page: templates that escape everything put into them, and the scripts and style it carries."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from offleash.render.escape import show_control_characters

HERE = Path(__file__).parent / "assets"


@cache
def template(name: str) -> Template:
    """A template by the name of its file."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.finalize = lambda value: (
        show_control_characters(value) if type(value) is str else value
    )  # Markup is ours, a str is not
    return environment


# What a page carries: the charting library, its own scripts and style, and a policy that lets nothing else run.


SCRIPTS = ("text.js", "theme.js", "charts.js", "table.js", "samples.js", "problem.js", "main.js")


@cache
def chart_script_source() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the package that also exports figures."""
    import vl_convert

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return f"(() => {{ {_inline(script)} }})();"


@cache
def own_script() -> str:
    """The scripts of the page as one, private to it."""
    source = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{_inline(source)}\n}})();'


@cache
def style() -> str:
    return (HERE / "page.css").read_text(encoding="utf-8")


def policy(scripts: list[str], is_served: bool) -> str:
    """Content-Security-Policy: the scripts of the page by their hash, no network but the server that served it."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    connect_source = "'self'" if is_served else "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {connect_source}; base-uri 'none'; form-action 'none'"
    )


def _inline(script: str) -> str:
    """A script that may stand between script tags."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
