"""The settings of each command, and the function that parses its line. None imports torch."""
