"""Characters to token ids. Nothing here needs torch."""
