"""What the routes of control are made of, beside `control.http`: transactions that the audit log records, resources."""
