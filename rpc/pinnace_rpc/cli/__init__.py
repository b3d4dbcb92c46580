"""The command line and the entry of the program; imports the server and print mode only where it starts them."""
