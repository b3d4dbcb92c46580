"""The reports of a judgement: JSON, text, transcripts."""
