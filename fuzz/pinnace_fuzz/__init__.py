"""Drives any agent that speaks the protocol, and judges its records by the specification."""
