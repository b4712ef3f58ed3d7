"""Other budgets and later releases: what they would cost and how accurate they would be."""
