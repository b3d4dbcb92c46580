"""Child processes: the one place that starts and ends them, and what protects the agent from them.

`registry` starts them and knows them; `descendants` finds, ends and reaps what they have started; `watchdog` ends that
after a `kill -9` of the agent; `tree` reads which processes there are; `protection` closes the agent's memory,
environment and descriptors to them. What the first answer does not need is loaded with the first command.
"""
