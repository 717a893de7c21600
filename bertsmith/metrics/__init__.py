"""Gold answers and predictions → figures, equal to the reference libraries'; a file per kind."""
