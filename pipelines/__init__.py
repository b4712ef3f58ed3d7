"""Deployments: a few lines per product that point at ``dprelease.flows``. Not part of the installed package."""
