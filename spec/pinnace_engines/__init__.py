"""Engines: where calls run that the batch and the judge divide among machines; imports no other package of pinnace.

`calls` imports the others; `programs` runs on the workers of engines. Both distributions carry it.
"""
