"""Tasks and pre-training objectives, one per file."""
