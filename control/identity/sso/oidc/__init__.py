"""OpenID Connect, as a relying party: the provider's metadata and keys, the code exchange, the ID token.

The path of a login:

    Providers.metadata     the provider's endpoints, from `{issuer}/.well-known/openid-configuration`
    authorization_url      the browser goes to the provider, with state, nonce and the challenge of PKCE
    check_response_issuer  the browser is back with a code, which must come from this provider (RFC 9207)
    exchange_code          the token endpoint returns an ID token for the code
    Providers.key_set      the keys that the provider signs with
    verify_id_token        signature and claims; on UnknownKey, the keys are fetched and the token is verified again
    fetch_userinfo         the claims that are not in the ID token, if `sub` is the same

Each step raises only `LoginRefused`, with its own reason, for any input of the provider. All requests go through the
guarded `Egress`, because tenants name the addresses of issuer and endpoints. Success means that this provider has
identified the browser's user as `subject`. It does not identify an account, and does not prove an e-mail address.
"""
