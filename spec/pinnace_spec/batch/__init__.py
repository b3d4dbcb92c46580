"""Results of processes, and tasks of batches, as they are published; imports rules and the wire alone."""
