"""Tool approval: decides which calls of the model run, and asks the user. Imports `extensions.services` and below."""
