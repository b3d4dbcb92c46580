"""Model providers: one stream of message updates each."""
