"""``python -m dprelease`` is the same as ``dprelease``."""

from dprelease.cli import main

if __name__ == "__main__":
    main()
