"""Settings of fine-tuning: what all tasks share, and a file for each task; none needs torch."""
