"""What is made of the specification: the rules as read, and one module for each kind of file that is generated."""
