"""Campaigns of developers: long searches with real agents, faults of the program that checks must find, and recordings.

Not shipped. They drive agents with `pinnace_fuzz`, over the wire alone.
"""
