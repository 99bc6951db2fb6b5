"""The schema and its migrations, on SQLite and on PostgreSQL."""
