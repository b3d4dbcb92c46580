"""Keys and logins of providers: storage, and the choice of a request. Imports `config` and `config.models`."""
