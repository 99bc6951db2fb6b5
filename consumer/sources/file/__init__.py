"""Records from a file of lines, such as JSON lines, that another process appends to. docs/sources/file.md describes it.

Each line is a record; its number is the byte at which it begins, so that it needs no index and can be found again.
"""
