"""The consumer in process: real sockets, both databases."""
