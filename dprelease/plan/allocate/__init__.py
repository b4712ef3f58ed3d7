"""Which noise each step gets, and how the budget is divided among them."""
