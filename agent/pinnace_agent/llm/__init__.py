"""Model providers: one stream of message updates each, and what an answer calls for. Imports core and redaction."""
