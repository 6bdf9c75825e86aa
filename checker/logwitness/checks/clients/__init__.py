"""What clients were told; `fold` is where to begin."""

from .fold import FAMILY

__all__ = ["FAMILY"]
