"""Files as columns of declared types, the same for every engine: CSV, Parquet, SPSS, Stata and SAS."""
