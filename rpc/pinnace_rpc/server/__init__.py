"""One agent process and its protocol; imports the agent and the options of `cli`, never the command line itself."""
