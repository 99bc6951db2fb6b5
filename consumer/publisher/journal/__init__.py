"""The journal: events in a file that any program appends to, and that a publisher reads.

This package decides what counts as an event of a journal and what happens to damage. It knows no network.
"""
