"""Reports of verdicts, for people and for machines."""
