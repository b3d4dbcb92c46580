"""`pinnace batch`: many agents, each for a task; imports the specification, and no module of an agent.

`coordinator` imports the others; `worker` with `workspaces` and `programs` is what runs on other machines.
"""
