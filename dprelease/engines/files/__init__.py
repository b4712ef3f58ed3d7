"""CSV and Parquet files as columns of declared types, the same for every engine."""
