"""The laboratory: programs that measure this project's published figures. In the checkout only."""
