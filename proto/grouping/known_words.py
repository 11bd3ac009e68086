"""Words that have digits: names of encodings, algorithms, types, protocols and error codes, which tell bugs apart."""

import re
from typing import Final

_WORDS: Final = (
    # encodings
    r"utf-?(?:7|8|16|32)(?:mb[34]|le|be)?|ucs-?[24]|iso-?8859(?:-\d{1,2})?|(?:windows|cp)-?\d{3,5}|latin-?\d"
    # hashes, ciphers, signatures
    r"|sha-?[123](?:-\d{3})?|sha-?(?:224|256|384|512)|md[245]|crc-?(?:8|16|32|64)|blake[23][bs]?"
    r"|base-?(?:16|32|36|58|62|64|85)|(?:aes|rsa|des|ecdsa|hmac|rc)-?\d{1,4}|[rehp]s-?(?:256|384|512)"
    r"|ed25519|x25519|curve25519|secp\d{3}[kr]1|p-?(?:256|384|521)|x\.?509|pkcs-?\d{1,2}"
    # types and machines
    r"|u?int-?(?:8|16|32|64|128)|float-?(?:16|32|64)|[iuf](?:8|16|32|64|128)|x86(?:[-_]64)?|x64|amd64|arm64|armv\d"
    r"|aarch64|riscv64|win(?:32|64)|i[3-6]86"
    # protocols and formats
    r"|https?-?[123]|h[23]c?|(?:tls|ssl)-?v?\d(?:\.\d)?|ipv?[46]|oauth-?[12]|saml-?[12]|h26[45]|mp[34]|av1|vp[89]"
    r"|rfc-?\d{3,5}|ieee-?754|v\d{1,2}(?:alpha|beta)\d{1,2}|[1-5]xx"
    # names
    r"|i18n|l10n|a11y|k8s|e2e|b2b|b2c|p2p|o11y|s3|ec2|r2|log4j2?|neo4j|sqlite3|db2|c3p0|web3|d3|es(?:[5-9]|20\d\d)"
    r"|py(?:thon)?[23](?:\.\d{1,2})?"
)
# Error codes of databases, compilers and identity providers; their numbers name the failure.
_CODES: Final = (
    r"(?:ORA|TNS|PLS)-\d{4,5}|P[12]\d{3}|E\d{4,5}|TS\d{4,5}|CS\d{4}|AADSTS\d{4,7}|SQL\d{4,5}N?|PGRST\d{3}|MSB\d{4}"
)

KNOWN_WORD: Final = re.compile(rf"(?i:{_WORDS})|{_CODES}")

# Of a piece of an identifier: a known word at its start or where the case changes (group 1), or digits.
KNOWN_WORD_OR_DIGITS: Final = re.compile(
    rf"((?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))(?:(?i:{_WORDS})|{_CODES})(?!\d))|\d++(?:\.\d++)*+"
)
