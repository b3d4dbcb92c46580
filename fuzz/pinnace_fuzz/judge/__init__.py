"""`pinnace-conform`: tests the conformance of any agent to the specification, from its records alone."""
