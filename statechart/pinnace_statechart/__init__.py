"""The statechart at work: pure state, guards and actions over the rows of the specification."""
