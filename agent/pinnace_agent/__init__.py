"""The agent: performs the statechart's effects with models, tools, shells and sessions."""
