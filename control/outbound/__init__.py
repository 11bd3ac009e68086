"""Requests and mail to addresses that tenants name: the egress policy, and clients that enforce it."""
