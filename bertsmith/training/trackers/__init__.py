"""Services that a run's figures can go to, by name; each is a file here, imported when chosen."""
