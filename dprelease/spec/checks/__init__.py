"""The rules that cross fields: names that lead somewhere and limits that can be kept.

What most of the ``check_...`` functions here take is said once:

* ``spec``, ``table``, ``query``, ``column`` and ``account``: as the author wrote them, valid field by field. A table
  beside a query is the query's; None where there is none of that name;
* ``name``: the name of what is checked, and ``at`` its path, such as ``("queries", "income")``;
* ``hierarchies``: those of the spec;
* ``findings``: where problems go. Nothing is raised, and nothing is returned unless a function says so.
"""
