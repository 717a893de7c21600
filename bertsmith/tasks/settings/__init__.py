"""Settings of fine-tuning: those that all tasks share, and a file for each task.

The command line reads them, so these modules import neither torch nor numpy. The docstrings of a
settings class and of its fields are the help texts of its command.
"""
