"""What an extension registers, checked when it does: tools, commands, flags, providers. Imports events only."""
