"""What one draw costs, and many draws together: privacy profiles, Renyi curves and exact loss distributions."""
