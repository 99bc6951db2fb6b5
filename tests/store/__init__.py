"""Tests of the store, on SQLite and on PostgreSQL. A package, so that its files can share `helpers.py`."""
