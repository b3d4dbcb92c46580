"""The subcommands, one module each; the entry of the program imports the one that runs."""
