"""Links on tasks: where an evaluation's files are, and the page with its results."""
