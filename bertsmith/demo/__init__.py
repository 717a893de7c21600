"""The embedded default: a corpus read from the installed Python packages."""
