"""Histories of other tools as histories of ours: Jepsen's EDN, JSON and logs, Porcupine's key-value logs.

`foreign_format` recognises the format by the first bytes of a file, `read` gives its events. An imported history is
a history like any other. Hostile files are expected: forms have limits of length, depth and size, nothing recurses.
"""

from .formats import SNIFFED, ForeignFormat, foreign_format
from .reading import read

__all__ = ["SNIFFED", "ForeignFormat", "foreign_format", "read"]
