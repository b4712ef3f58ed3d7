"""How is it done? The imperative shell: find the project, plan, reserve, measure each step once, publish.

Floor 7. ``draw.py`` is the only place where exact values exist; ``run.py`` holds the steps that every executor
walks; ``direct.py`` walks them with threads in this process (``flows`` does with Prefect).
"""
