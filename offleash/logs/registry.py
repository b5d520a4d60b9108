"""FORMATS: the log formats in the order of recognition, and `open_log`, which reads a file of any of them."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from offleash.data.tables import Note
from offleash.errors import OffleashError, unknown
from offleash.files.archives import refuse_pickle
from offleash.files.columns import normal_name
from offleash.files.detect import Container, Head, read_head
from offleash.logs.columns import count_columns, has_counts, sample_columns
from offleash.logs.format import Format, Log, Options

JSONL, JSON, PARQUET, CSV, ZIP = Container
TABLE = (JSONL, JSON, PARQUET, CSV)
TABLES = ("counts", "generic")  # any table, by the names of its columns


class Formats(Mapping[str, Format]):
    """Formats by name. The module of a format has its name, and is imported when that format is first looked at."""

    def __init__(self, containers: Mapping[str, Sequence[Container]]) -> None:
        self._containers = containers

    def __getitem__(self, name: str) -> Format:
        if name not in self._containers:
            raise KeyError(name)
        loaded: Format = import_module(f"offleash.logs.{name}").FORMAT
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._containers)

    def __len__(self) -> int:
        return len(self._containers)

    def __contains__(self, name: object) -> bool:
        return name in self._containers

    def formats_in(self, container: Container) -> Iterator[Format]:
        """The formats of tools that may be in such a file, in the order of recognition; any table is left to TABLES."""
        names = (name for name, containers in self._containers.items() if container in containers)
        return (self[name] for name in names if name not in TABLES)


# In the order of recognition, most specific first, each with the kinds of file it can be in: a CSV file of counts is
# not worth importing the readers of JSON logs for. A new format is one file and one line here.
FORMATS = Formats(
    {
        "lm_eval": (JSONL,),
        "lighteval": (PARQUET,),
        "inspect": (ZIP, JSON, JSONL, PARQUET),
        "nemo_skills": (JSONL,),
        "trl": (PARQUET,),
        "verl": (JSONL,),
        "prime_rl": (JSONL,),
        "nemo_rl": (JSONL,),
        "skyrl": (JSONL,),
        "open_instruct": (JSONL,),
        "swift": (JSONL,),
        "tinker": (JSONL,),
        "areal": (JSONL,),
        "art": (PARQUET,),
        "qwen_math": (JSONL,),
        "verifiers": (JSONL,),
        "nemo_gym": (JSONL,),
        "human_eval": (JSONL,),
        "evalplus": (JSONL, JSON, PARQUET),
        "bigcodebench": (JSONL, JSON),
        "livecodebench": (JSON, JSONL),
        "helm": (JSON, JSONL),
        "opencompass": (JSON, JSONL),
        "counts": TABLE,
        "generic": TABLE,
    }
)

ENTRY_POINTS = "offleash.formats"
MISSING_SHARE = 0.7  # of its columns, beyond which a format is not near

# Formats that choose by --filter.
FORMATS_WITH_FILTERS = ("lm_eval", "lighteval", "inspect", "nemo_skills", "evalplus", "helm", "opencompass")


def open_log(path: Path, options: Options, format: str | None = None) -> Log:  # noqa: A002 - the word of the command line
    """Read a file by its content, or as the format named. Lazy: see `Log`."""
    chosen = None if format is None else format_named(format)
    refuse_pickle(path)
    head = read_head(path)
    notes: list[Note] = []
    if chosen is None:
        kind, head = _match(head, options, notes)
    else:
        kind, head = chosen, _rows_inside(head, options) if format in TABLES or options.rows else head
    if kind is None:
        raise _unrecognised_error(head)
    log = kind.read(path, head, options)
    log.notes.extend(notes)
    # A note and not an error: one --filter may be meant for another file of the same comparison.
    if options.filter is not None and kind.name not in FORMATS_WITH_FILTERS:
        filter_note = f"--filter {options.filter} is not used: {kind.name} logs have no filter to choose"
        log.notes.append(Note(f"{path.name}: {filter_note}."))
    return log


def format_named(name: str) -> Format:
    """The format that a user names: one of ours, of an installed package, or their own FILE.py:NAME."""
    if name in FORMATS:
        return FORMATS[name]
    from offleash.plugins import find_plugin, plugin_names  # here: our own formats need no plugins

    plugin = find_plugin(ENTRY_POINTS, name, "log format")
    if plugin is None:
        raise unknown("format", name, [*FORMATS, *plugin_names(ENTRY_POINTS)])
    if not isinstance(plugin, Format):
        raise OffleashError(f"The log format {name} is a {type(plugin).__name__}. Name a Format: FILE.py:FORMAT.")
    return plugin


def plugin_formats(notes: list[Note]) -> Iterator[Format]:
    """The formats of installed packages; one that does not load gets a note, and the others work."""
    from offleash.plugins import load_entry_point, plugin_names

    for name in plugin_names(ENTRY_POINTS):
        try:
            plugin = load_entry_point(ENTRY_POINTS, name)
        except OffleashError as error:
            notes.append(Note(str(error), warning=True, code="plugin_not_loaded"))
            continue
        if isinstance(plugin, Format):
            yield plugin
        else:
            text = f"The plugin {name!r} is a {type(plugin).__name__}, not a Format."
            notes.append(Note(text, warning=True, code="plugin_not_loaded"))


def recognise_format(head: Head, options: Options) -> Format | None:
    """The first format that recognises the file. A table whose columns the user maps needs no recognising."""
    return _match(head, options, [])[0]


def _match(head: Head, options: Options, notes: list[Note]) -> tuple[Format | None, Head]:
    """The format of a file, and the head of its rows, which may be in a list inside an object."""
    known = FORMATS.formats_in(head.container)
    mapped_counts = bool({"n", "c"} & options.columns.keys())
    if options.rows is None and not mapped_counts:
        match = next((kind for kind in known if kind.recognise(head)), None)
        if match is not None or head.container is Container.ZIP:
            return match, head
    head = _rows_inside(head, options)
    if mapped_counts:
        return FORMATS["counts"], head
    if FORMATS["counts"].recognise(head):
        return FORMATS["counts"], head
    # before any other table, and only now: reading which packages are installed takes longer than reading counts
    if (plugin := next((kind for kind in plugin_formats(notes) if kind.recognise(head)), None)) is not None:
        return plugin, head
    if FORMATS["generic"].recognise(head):
        return FORMATS["generic"], head
    if not options.columns:
        return None, head
    return FORMATS["counts" if has_counts(count_columns(head, options)) else "generic"], head


def _rows_inside(head: Head, options: Options) -> Head:
    """The head of the rows of a file, which may be one object with a list of them."""
    if options.rows is None and not head.is_single_object:
        return head
    from offleash.logs.wrapped import inside  # most files are no such object, and counts should load fast

    return inside(head, options)


def _unrecognised_error(head: Head) -> OffleashError:
    if not head.columns:
        return OffleashError(
            f"{head.path}: row 1 is empty, so its format cannot be recognised. Is it a log of samples?"
        )
    if head.container is Container.ZIP:
        return OffleashError(f"{head.path} is a zip archive without a known log format. Unpack it and give the folder.")
    shown = ", ".join(head.columns[:20]) + (", ..." if len(head.columns) > 20 else "")
    chosen = sample_columns(head, Options())
    roles = ["problem"] if not {"problem", "question"} & chosen.keys() else []
    roles += ["text"] if not {"text", "verdict"} & chosen.keys() else []
    maps = " ".join(f"--map {role}=COLUMN" for role in roles) or "--log-format NAME"
    return OffleashError(
        f"{head.path} ({head.container.value}) has the columns {shown}, which match no known format"
        f"{_nearest_formats(head)}. Name them with {maps}{' (or verdict=COLUMN)' if 'text' in roles else ''}."
    )


def _nearest_formats(head: Head) -> str:
    """The two formats of such files of which the largest share of columns is there, each with those that are not."""
    present_names = {normal_name(name) for name in head.columns}
    shares = []
    for kind in FORMATS.formats_in(head.container):
        for columns in kind.columns:
            missing = [name for name in sorted(columns) if normal_name(name) not in present_names]
            shares.append((len(missing) / len(columns), len(missing), kind.name, missing))
    nearest_formats: dict[str, list[str]] = {}
    for share, _, name, missing in sorted(shares):
        if share <= MISSING_SHARE:
            nearest_formats.setdefault(name, missing)
    if not nearest_formats:
        return ""
    texts = [
        f"{name} (no {', '.join(missing)})" if missing else f"{name} (other values)"
        for name, missing in list(nearest_formats.items())[:2]
    ]
    return f"; closest: {', '.join(texts)}"
