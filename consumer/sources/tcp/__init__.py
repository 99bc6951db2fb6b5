"""Events from a publisher over TCP or TLS, as docs/protocol.md describes them.

The grammar of the lines, the address, the connection, and how a connection is secured, watched and closed.
"""
