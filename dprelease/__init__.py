"""Plan, measure once and publish differentially private statistics from one YAML file."""

__all__ = ["__version__"]
__version__ = "0.1.0"
