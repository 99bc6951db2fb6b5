"""The publisher: it serves a journal to consumers over TCP or TLS. It never writes to the journal."""
