"""The rules of the protocol: the catalogue, and the classes that find violations in messages, grouped by topic.

A new rule is an entry of `catalogue.toml`. If messages can show a violation, its number also belongs to a subclass of
`rules.base.ProtocolRule` in the `RULES` of a module here; `trace.validation` collects them. State that rules share
belongs to `trace.wire_state`. Cases that provoke violations do not belong here.
"""
