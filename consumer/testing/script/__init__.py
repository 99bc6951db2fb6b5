"""A publisher that follows a script, for tests of a consumer."""
