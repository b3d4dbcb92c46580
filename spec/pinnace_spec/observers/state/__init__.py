"""The agent's state as a trace shows it, folded record by record, for the invariants."""
