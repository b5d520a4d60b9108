"""Readers for the logs people have on disk, recognised by content, not by file name."""

from offleash.logs.format import Container, Format, Head, Log, Note, Options
from offleash.logs.opening import head_of
from offleash.logs.registry import FORMATS, open_log

__all__ = ["FORMATS", "Container", "Format", "Head", "Log", "Note", "Options", "head_of", "open_log"]
