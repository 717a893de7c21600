"""The commands: one file each, whose `main` calls the other rooms and prints the result.

The modules in `settings/` parse the command lines, by tyro.
"""
