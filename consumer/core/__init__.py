"""What everything else is built on: events and their verdict, errors, outcomes, and the words of messages.

This wing decides what is true of an event, whoever asks. It knows no asyncio, no socket, no clock and no database.
"""
