"""The tools' operations on this machine: files, searches and programs. Imports `tools` and `shell`."""
