"""The typed Python client, made from the declarations: a method for each command, a type for each record."""
