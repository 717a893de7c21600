"""Training: one loop for every objective, its optimizer, checkpoints and journal."""
