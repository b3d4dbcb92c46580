"""The running agent: performs the statechart's effects. Imports the rooms below it, and extensions by ports alone."""
