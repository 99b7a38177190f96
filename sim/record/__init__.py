"""What a run leaves behind: the raw record of what happened, and the safe writing and reading of results."""
