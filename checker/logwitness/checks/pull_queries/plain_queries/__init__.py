"""Queries that plainly break no rule, found by a compiled loop; `finder` is where to begin."""

from .finder import READS, Plain, PlainQueries, QueryFold, plain_queries

__all__ = ["READS", "Plain", "PlainQueries", "QueryFold", "plain_queries"]
