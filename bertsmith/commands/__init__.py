"""The commands: one file each. tyro parses, the file composes and prints, nothing more."""
