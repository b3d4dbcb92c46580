"""Searches the models with Spin, and plays their paths against a real agent."""
