"""Highly available pull queries over replicated tables."""
