"""The ClickHouse tables, and the migrations that make them (`sql/`)."""
