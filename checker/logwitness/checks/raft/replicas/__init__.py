"""The nodes' logs against each other; `fold` is where to begin."""

from .fold import FAMILY

__all__ = ["FAMILY"]
