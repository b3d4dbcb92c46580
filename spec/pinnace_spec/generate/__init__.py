"""What is generated from the specification: one module for each kind of file, none of which writes anything."""
