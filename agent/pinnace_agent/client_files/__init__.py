"""Files that the client serves: requests to it, and which files of a call go that way. Imports `tools` and `core`."""
