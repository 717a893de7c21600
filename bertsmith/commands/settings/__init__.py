"""Settings of each command, and how its line becomes them; none needs torch."""
