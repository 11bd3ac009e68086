"""The relational store: SQLAlchemy Core over SQLite or PostgreSQL, and its migrations."""
