"""The rules that cross fields: names that lead somewhere and limits that can be kept."""
