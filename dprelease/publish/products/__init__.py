"""The pages over all releases of a project, of its products and of their tables over the periods, and their feeds."""
