"""What can go wrong around the specifications, as one line for the person who asked."""

from __future__ import annotations


class SpecError(Exception):
    """Bad usage or a missing tool: says what is wrong, where, and what would be right. Exit status 2."""
