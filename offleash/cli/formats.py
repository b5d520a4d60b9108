"""offleash formats: the kinds of logs that can be read."""

from offleash.cli.output import AsJson, console, print_json


def formats(as_json: AsJson = False) -> None:
    """The kinds of logs that can be read, recognised by content.

    \b
    Examples:
      offleash formats
      offleash formats --json
    """
    from offleash.logs.registry import FORMATS

    if as_json:
        print_json([{"name": f.name, "about": f.about, "examples": list(f.examples)} for f in FORMATS.values()])
        return
    from rich import box
    from rich.table import Table

    table = Table("format", "what it is", "files", box=box.SIMPLE_HEAD)
    for kind in FORMATS.values():
        table.add_row(kind.name, kind.about, ", ".join(kind.examples))
    console().print(table)
