"""Approval policies: rules that say which actions are allowed, require approval or are denied.

An action, the type of its target and a project are matched against all rules: the organization's policies
(`store.list_enabled_rules`), the built-in rules and the fallback. `rules.rank_rules` orders the matching rules, and the
first rule decides. The function is pure, so a dry run (`api`) and a real request cannot differ.
"""
