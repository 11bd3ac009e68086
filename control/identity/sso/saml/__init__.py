"""SAML 2.0, as a service provider: requests, metadata, and verification of responses.

A login starts with `service_provider.redirect_url`: the browser takes the request to the identity provider of the
organization, which posts a response to the assertion consumer service. `response.verify_response` decides whether the
response is trusted. `document` decodes and parses it (size, encoding, limits). `signature` verifies it with the pinned
certificates (`certificates`) and returns only the signed element. The checks of the Web Browser SSO profile
(saml-profiles 4.1.4.3) use this element: issuer, destination, confirmation of the subject, conditions, session. Each
check has its own reason in `control.identity.sso.refusal.LoginRefused`, for the audit log.

All functions here are pure and synchronous, and bounded in time for any input. Callers run them in a thread. An
`Assertion` means that the pinned key signed exactly these values for this service and this request. The caller checks
for repeated assertions: it stores `id` until `not_on_or_after`.
"""
