"""Histories of ours in the formats of other tools."""

from .jepsen_json import operations, write_jepsen_json

__all__ = ["operations", "write_jepsen_json"]
