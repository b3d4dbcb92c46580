"""Campaigns of developers: long searches with real agents, faults that checks must find, recordings, shared trials.

Not shipped. They drive agents with `pinnace_fuzz`, over the wire alone.
"""
