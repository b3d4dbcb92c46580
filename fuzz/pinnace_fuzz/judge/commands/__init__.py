"""Parts of the command line by subject: commands on reports, runs on an engine, what runs share. `cli` imports them."""
