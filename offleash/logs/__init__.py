"""Readers for the logs people have on disk, recognised by content, not by file name."""

from offleash.logs.format import Format, Log, Options
from offleash.logs.opening import Container, Head, head_of
from offleash.logs.registry import FORMATS, open_log
from offleash.tables.notes import Note

__all__ = ["FORMATS", "Container", "Format", "Head", "Log", "Note", "Options", "head_of", "open_log"]
