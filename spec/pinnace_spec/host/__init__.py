"""What a durable host writes beside the records of its agents; imports the common model of output."""
