"""The other side: a journal of events in a file, and a publisher that serves it over TCP."""
