"""Finding and loading extensions: folders, packages, dependencies, modules. Imports api, services and registration."""
