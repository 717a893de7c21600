"""The settings of each command, and the parsing of its line; none needs torch."""
