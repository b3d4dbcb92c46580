"""The events of extensions and the results that handlers may return, as data. Imports no other room of extensions."""
