"""Which actions are allowed, which are asked about and which are denied.

A question (what is to be done, to what kind of thing, in which project) meets every rule that matches it: the policies
that an organization made (`store`), the table that comes with the product (`builtin`) and the fallback. `engine.ranked`
puts them in order and the first one decides; it is a pure function, so a dry run and a real request cannot differ.
"""
