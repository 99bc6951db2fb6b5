"""The contract's seven steps on plain sqlite3 and asyncio streams: what the lab asks of a `client.py`.

A complete small consumer, one event a transaction. The production path does not import it.
"""
