"""Soak: one agent under mixed traffic for minutes, or for a week's worth of it; what it uses must not grow.

`python -P -m pinnace_campaigns.soak --minutes 15`; see docs/soak-and-chaos.md.
"""
