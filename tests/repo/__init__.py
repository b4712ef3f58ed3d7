"""The repository is as it says."""
