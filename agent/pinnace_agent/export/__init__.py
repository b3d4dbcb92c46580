"""A session as a page for people, or as a file of its own: reads sessions, writes copies, changes nothing else."""
