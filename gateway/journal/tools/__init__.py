"""Tools for operators: inspection of journals, and requeueing of quarantined requests."""
