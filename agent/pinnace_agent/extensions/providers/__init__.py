"""Calling the streams and logins of providers that extensions register. Imports handlers and below."""
