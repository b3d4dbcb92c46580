"""The process: command line, standard streams, dispatch of commands."""
