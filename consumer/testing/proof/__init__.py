"""The proof that a handler has its effect exactly once: runs that are disturbed, compared with one that is not."""
