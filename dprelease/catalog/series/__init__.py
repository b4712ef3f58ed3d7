"""Of a series over periods: which whole numbers weight the tables of the last periods in one draw, and why these."""
