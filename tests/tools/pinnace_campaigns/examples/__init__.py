"""Records the example conversations of the reference."""
