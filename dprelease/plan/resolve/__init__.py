"""From a spec and its public files to a catalog of tables, keys and hierarchies."""
