"""`pinnace batch`: many agents, each for a task; imports the specification, and no module of an agent.

`command` imports `coordinator`, and that the others; `worker`, `workspaces` and `programs` run on other machines, too.
"""
