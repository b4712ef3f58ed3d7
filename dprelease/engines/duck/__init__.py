"""The engine that runs DuckDB inside this process."""
