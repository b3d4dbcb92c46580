"""The statechart as a table of transitions. Names only, no logic."""
