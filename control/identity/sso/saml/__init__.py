"""SAML 2.0, as a service provider: requests, metadata, and what of a response may be believed.

A login starts with `service_provider.redirect_url`: the browser takes the request to the identity provider of the
organization, which posts a response to the assertion consumer service. `response.verify_response` decides whether it
may be believed: `document` decodes and parses it (size, encoding, limits), `signature` verifies it with the pinned
certificates (`certificates`) and returns the signed element alone, and the Web Browser SSO profile (saml-profiles
4.1.4.3) is checked on that: issuer, destination, confirmation of the subject, conditions, session. Each check has its
own reason in `control.identity.sso.refusal.LoginRefused`, for the audit log.

Everything here is pure and synchronous, and bounded in time for any input; callers run it in a thread. An `Assertion`
means that the pinned key signed exactly these values for this service and this request. Whether it was seen before is
the caller's to check: it remembers `id` until `not_on_or_after`.
"""
