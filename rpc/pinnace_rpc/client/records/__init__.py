"""Types of the records that agents of the family write; imports the specification alone."""
