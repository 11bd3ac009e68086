"""Building blocks of control's routes besides `control.http`: resources, and transactions with their audit events."""
