"""The executable specification: records, framing, statechart rows, invariants, error texts."""
