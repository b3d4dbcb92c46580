"""Child processes: the one place that starts and ends them, and what protects the agent from them.

`registry` starts, ends and reaps; `watchdog` ends them after a `kill -9` of the agent; `tree` reads which processes
there are; `protection` closes the agent's memory, environment and descriptors to them.
"""
