"""Extensions in Python: finding and loading modules, what they register, how they are called."""
