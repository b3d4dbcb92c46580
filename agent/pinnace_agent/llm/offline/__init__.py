"""Provider: a scripted model that needs no network and no key. Imports llm."""
