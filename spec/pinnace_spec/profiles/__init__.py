"""The protocol profiles and generations: which commands, records and fields each has."""
