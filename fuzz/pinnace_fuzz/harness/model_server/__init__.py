"""A model server made of a script, on the loopback address, in the bytes of each API."""
