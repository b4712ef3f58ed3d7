"""The engine that has a Spark cluster do the work: the very steps of the embedded engine, in every task of a job."""
