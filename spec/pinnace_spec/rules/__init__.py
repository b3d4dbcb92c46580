"""Rules, limits, error texts and what the observers promise, with their sources."""
