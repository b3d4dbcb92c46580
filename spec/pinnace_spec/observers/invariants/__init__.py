"""The invariants: one observer each, fed with records alone."""
