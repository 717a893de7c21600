"""Settings of fine-tuning: those that all tasks share, and a file for each task, without torch."""
