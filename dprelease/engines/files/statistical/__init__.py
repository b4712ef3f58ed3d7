"""Files of SPSS, Stata and SAS: parsed in a process of its own, as the columns that they store."""
