"""Chaos: real agents under random commands while processes, readers, servers, disks and clocks fail.

`python -P -m pinnace_campaigns.chaos --steps 10000 --seed 1`; see docs/soak-and-chaos.md.
"""
