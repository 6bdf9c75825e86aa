"""Engines: what brings a history to the checks. `local` works in this process."""
