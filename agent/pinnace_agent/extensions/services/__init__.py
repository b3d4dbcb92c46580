"""What `pi` and `ctx` are built on: bus, dialogs, programs, watchdog, errors. Imports ports and registration."""
