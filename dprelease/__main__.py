"""``python -m dprelease`` is the same as ``dprelease``."""

from dprelease.cli import command

if __name__ == "__main__":
    command()
