"""Chaos: real agents under random commands while processes, readers, servers, disks and clocks fail.

`python -m pinnace_fuzz.chaos --steps 10000 --seed 1`; see docs/steady.md.
"""
