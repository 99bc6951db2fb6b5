"""The user's database: the one transaction that changes it, and the tables and migrations behind that transaction.

This wing decides what is committed, and when it counts as durable. It never sees a socket and knows nothing of asyncio:
it is called with events and answers with outcomes.
"""
