"""Runs played and judged: hunting for a seed, a campaign of many, the validation of rules."""
