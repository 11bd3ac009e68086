"""Approval policies: which actions are allowed, require approval or are denied.

A query (an action, the type of its target, a project) is matched against all rules: the organization's policies
(`repository`), the built-in table (`builtin`) and the fallback. `evaluation.rank_rules` orders the matching rules and
the first one decides. It is a pure function, so a dry run and a real request cannot differ.
"""
