"""Agents in the process of a program, each in a thread of its own; imports the server and the client."""

from pinnace_rpc.embedded.agent import Agent, open_agent

__all__ = ["Agent", "open_agent"]
