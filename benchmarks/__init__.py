"""Scripts that measure, and their results; see README.md."""
