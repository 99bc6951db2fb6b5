"""An engine with partitions that lives in memory, and a source that reads from it: everything can happen on demand."""
