"""What an organization is and owes: its projects and keys (`tenants`), its plan (`billing`), and the erasure of data (`erasures`)."""
