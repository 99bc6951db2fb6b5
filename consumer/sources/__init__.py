"""Where events come from: one package or module for each kind of source.

This wing decides how events are asked for, read and acknowledged. It never sees a database.
"""
