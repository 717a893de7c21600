"""The settings of each command, and the parsing of its line. No module here imports torch."""
