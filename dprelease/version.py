"""The version of this package: low, so that whoever records it imports nothing else."""

__all__ = ["__version__"]

__version__ = "0.1.0"
