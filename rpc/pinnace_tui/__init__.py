"""The terminal client (extra `tui`): a program of its own that speaks to an agent by the public Python client.

Imports `pinnace` and Textual, nothing else of the project: what it shows is what the protocol reports. Inside, `main`
imports `app`, which imports the widgets and commands; they import `content`.
"""
