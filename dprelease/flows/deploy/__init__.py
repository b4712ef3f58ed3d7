"""Deployments: registering releases with a Prefect server, and serving them."""
