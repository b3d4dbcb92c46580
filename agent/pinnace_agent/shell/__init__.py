"""Child processes: started, read, killed and protected in one place. Imports `core` alone."""
