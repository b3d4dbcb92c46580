"""Settings, models, credentials and context files, read from the user's folders."""
