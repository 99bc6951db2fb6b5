"""What one kind of database means for the store, in one module for each kind.

Connections, settings, locks, durability, bulk inserts and error codes of a database stand here and nowhere else. The
transaction itself, which is the same on all of them, does not.
"""
