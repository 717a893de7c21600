"""The commands: one file each, whose `main` calls the other rooms and prints the result.

`main(settings, line)` gets the parsed options, and all words of the command line from `bertsmith`
on, which messages repeat. The modules in `settings/` parse the command lines, by tyro. Where the
flags depend on the model that the line names, `main(words, line)` parses the words itself.
"""
