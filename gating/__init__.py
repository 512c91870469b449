"""What may be offered now, and how much of it: scopes, preconditions, votes, the cut."""
