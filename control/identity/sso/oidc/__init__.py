"""OpenID Connect, as a relying party: the provider's metadata and keys, the code exchange, the ID token.

A login, step by step:

    Providers.metadata     the provider's endpoints, of `{issuer}/.well-known/openid-configuration`
    authorization_url      the browser goes to the provider, with state, nonce and the challenge of PKCE
    check_response_issuer  the browser is back with a code: it comes from this provider (RFC 9207)
    exchange_code          the code becomes an ID token, at the token endpoint
    Providers.key_set      the keys that the provider signs with
    verify_id_token        signature and claims; on UnknownKey once more with the keys fetched again
    fetch_userinfo         the claims that are not in the ID token, if `sub` is the same

Each step raises `LoginRefused` with its own reason, and nothing else, whatever the provider sends. All requests go
through the guarded `Egress`: issuer and endpoints are addresses that tenants name. Success means: this provider says
that this browser's user is `subject`. It does not say which account that is, nor that an e-mail address is proven.
"""
