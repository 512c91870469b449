"""Records of figures with their origin, and the tables and plots made of them."""
