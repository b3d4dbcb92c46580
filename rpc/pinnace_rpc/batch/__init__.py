"""`pinnace batch`: many agents, each for a task; imports the specification and engines, and no module of an agent.

`command` imports `coordinator`, and that the others; `worker` and `workspaces` run on other machines, too.
"""
