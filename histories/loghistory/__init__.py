"""The history: the one contract between implementation, specification and checker."""
