"""The base of the agent: jobs, nurseries, JSON values, texts, ports. At run time it imports no other room."""
