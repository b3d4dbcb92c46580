"""The limits, the codes and texts of errors, and where the scenarios of a rule are."""
