"""Modes text and json: prompts on the command line, answers on stdout; imports the server's process, not its reader."""
