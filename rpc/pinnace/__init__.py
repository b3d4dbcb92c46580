"""What users import: names of the inner packages, resolved on first use."""
