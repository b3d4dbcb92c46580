"""What a command line says: the one table of options, how it is read, and what is shown of it."""
