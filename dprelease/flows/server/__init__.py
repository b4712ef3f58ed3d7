"""A Prefect server for one run, and the settings that Prefect is given."""
