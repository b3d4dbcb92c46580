"""Calling handlers: one call, and the chain of handlers of each event. Imports api and below."""
