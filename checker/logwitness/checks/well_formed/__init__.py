"""Whether a history is well formed: what all other checks take for granted, judged first (history-checks.md#ground)."""
