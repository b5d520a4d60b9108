"""The version of the package. A module of its own, so that whoever stores it need not import the package root."""

__version__ = "0.1.0.dev0"
