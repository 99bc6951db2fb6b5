"""A consumer at work: it moves events from a source to a store, for as long as it takes.

This wing decides when something is done: what is tried again and after which wait, how a stop proceeds, and which
thread calls the database. It contains neither SQL nor the bytes of any protocol.
"""
