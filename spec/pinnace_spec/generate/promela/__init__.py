"""The Promela models, generated from the transitions."""
