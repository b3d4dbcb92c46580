"""The report as one page: agents, rules, cases and what proves them. Made of the JSON reports alone."""
