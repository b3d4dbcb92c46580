"""`pinnace-conform`: finds out how far any agent keeps to the specification, from its records alone."""
