"""The rows of `docs/security/asvs.md`: what Sluice does about each requirement of ASVS 5.0, or why it does not apply. Proofs are marks in tests.

The requirements themselves are not repeated: they are OWASP's text, under its own licence (CC BY-SA 4.0).
"""

from collections.abc import Mapping
from typing import Final

SOURCE: Final = "https://github.com/OWASP/ASVS/tree/v5.0.0/5.0/en"

V5: Final[Mapping[str, str]] = {
    "5.1.1": "[Formats](../formats.md) and [settings](../settings.md) say what is accepted, how large, unpacked too, and what a context may allow; "
    "[reasons](../reasons.md) say what becomes of the rest. Nothing refused is stored.",
    "5.2.1": "500 MB and 64 KiB in all, refused from Content-Length or at the limit; less by context; each check runs in bounded time and memory.",
    "5.2.2": "The content is sniffed and decoded by its format's own rules in a locked process; extension and content must agree, in archives too.",
    "5.2.3": "Declared sizes, ratio and number of entries are judged before anything is unpacked, real ones while it is.",
    "5.2.4": "Quota, rate and plan per context and tenant, claimed in one statement; uploads at once per tenant. "
    "The user of the requirement is the tenant here.",
    "5.2.5": "An archive that holds a link of any kind is refused as `archive_unsafe`.",
    "5.2.6": "Pixels and frames are read from the header and judged before anything is decoded.",
    "5.3.1": "Objects lie outside of every web root under generated keys and leave as attachments, sandboxed, never run.",
    "5.3.2": "Keys come from a closed template language and generated ids; the sent name is kept for showing alone.",
    "5.3.3": "Archives are never unpacked to paths; an entry that would leave its folder is refused.",
    "5.4.1": "The name is validated when it comes in; every download names one in Content-Disposition.",
    "5.4.2": "RFC 6266 with RFC 8187 for what is not ASCII; control characters cannot get that far.",
    "5.4.3": "clamd, or the builtin rules, named as such; away is 503, not looked at is `scan_incomplete`: neither is clean.",
}
"""Chapter 5, complete: each row needs a proof."""

MORE: Final[Mapping[str, str]] = {
    "1.2.1": "Answers are JSON by a library; header values are checked for line ends; no HTML is made of what was sent.",
    "1.2.4": "Every query is built by SQLAlchemy with bound parameters, in repositories alone; import rules hold it to that.",
    "1.3.6": "A tenant may name an endpoint only where its host is on the operator's list, as a bare origin that leads to public or listed addresses; redirects are not followed.",
    "1.3.7": "The path template is a closed language of eight words, not `str.format`.",
    "1.5.1": "No DTD, no entities, no network in any XML that is read.",
    "1.5.3": "One strict JSON reader (no duplicate names, no NaN, depth 32); one strict multipart reader.",
    "2.2.1": "Every body, field and parameter has a schema with bounds; unknown JSON fields are refused.",
    "2.3.3": "Reserve, store, record: a crash at any moment leaves nothing acknowledged lost and nothing charged.",
    "2.3.4": "Quota, plan and rate are claimed by conditional statements; races end exactly at the limit.",
    "2.4.1": "Rate per context, plan per tenant, uploads at once per tenant, failed credentials per address, connections per server.",
    "4.1.1": "Every answer has the type of its content; JSON is UTF-8 by its standard.",
    "4.1.3": "Forwarded addresses are believed of configured proxies alone; links begin with the configured address, never with Host.",
    "4.1.4": "Methods that a path lacks are 405 with `Allow`; TRACE and CONNECT are among them.",
    "4.2.1": "One reading of each frame; what could have two is 400 and the connection closes.",
    "6.1.1": "Failed credentials are counted per address (IPv6 by /64), and a valid one still passes, so that nobody is locked out on purpose.",
    "6.3.1": "The same; a key holds 256 random bits, so that guessing is hopeless anyway.",
    "7.4.1": "A revoked or disabled key, and a suspended tenant, are refused by every process at once: nothing is cached.",
    "8.1.1": "The table of routes and scopes is data (`sluice.access`), and the reference of the API is made from it.",
    "8.2.1": "Every route asks for its scope; one without an entry in the table cannot be made.",
    "8.2.2": "The tenant stands in every query, and row level security behind it; another tenant's id answers byte for byte as an unknown one.",
    "8.2.3": "Fields of an answer are listed in schemas; what may be changed is listed too.",
    "8.3.1": "In the service, before a byte of the body is read.",
    "8.4.1": "As 8.2.2, on every route, with keys and with tokens.",
    "9.1.1": "The signature is checked before any claim is acted on.",
    "9.1.2": "Algorithms are fixed per issuer; `none` and every symmetric one are refused.",
    "9.1.3": "Keys come from the configured address alone; `jwk`, `jku`, `x5u`, `x5c` in a token refuse it.",
    "9.2.1": "`exp` is demanded, `nbf` and `iat` are judged; 30 s of leeway, none for the expiry.",
    "9.2.2": "`typ` is JWT or at+jwt, and the claims of an API token are demanded.",
    "9.2.3": "`aud` must name this service.",
    "9.2.4": "The same.",
    "10.3.1": "As 9.2.3.",
    "10.3.2": "Scopes come from the token; without any, from a setting that is empty by default.",
    "10.3.3": "A user is issuer and subject together.",
    "11.3.2": "AES-256-GCM, random nonce, bound to its place.",
    "11.3.3": "The same: authenticated, with the tenant, the bucket and the field as associated data.",
    "11.4.1": "SHA-256, HMAC-SHA-256.",
    "11.5.1": "`secrets` for every key, nonce and token id.",
    "13.2.2": "With two roles on PostgreSQL the service's own may read and write rows, one tenant's at a time, and change no table; the "
    "checker runs in a child that may do nothing.",
    "13.3.1": "Key files of mode 0600 made once, never in the database; a production start makes none by itself.",
    "13.3.4": "`sluice secrets rotate`, without a restart and resumable. How often is the operator's to decide.",
    "13.4.4": "TRACE is 405.",
    "13.4.6": "No answer names a server or a version of one.",
    "14.2.1": "Credentials are read from the Authorization header alone. A signed link is one file for a short time.",
    "14.2.6": "Access keys are masked, secrets never shown, API keys once.",
    "14.3.2": "`Cache-Control: no-store` on every answer.",
    "15.1.2": "Hash-pinned locks; `make sbom` writes CycloneDX.",
    "15.2.5": "Parsers of strangers' bytes run in a locked process without network, files or new processes.",
    "15.3.1": "Answers are schemas with named fields.",
    "15.3.2": "Key sets and buckets are asked without following redirects.",
    "15.3.3": "Unknown and read-only fields are refused.",
    "15.3.4": "As 4.1.3.",
    "15.3.5": 'Types are strict: `"10"`, `1.5` and `true` are no integers.',
    "15.4.2": "As 2.3.4: look and claim are one statement.",
    "16.2.5": "No secret in any log line, answer, row or file: canaries are searched for.",
    "16.3.2": "Refused and done actions are in the audit trail, with who, what and when.",
    "16.4.2": "The audit trail is append-only: the database refuses a change of a row.",
    "16.5.1": "One envelope for every failure, without a trace; the log has the whole under the `Request-Id`.",
    "16.5.2": "An engine that is away is 503, by name; nothing is stored and nothing charged.",
    "16.5.3": "Away is never a pass: neither scanner nor checker nor limiter fails open.",
    "16.5.4": "The outermost layer catches what nobody expected.",
}
"""Requirements of other chapters, levels 1 to 3, that a test carries the id of."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "V3 Web frontend": "There is none but the API's interactive reference, from a package, under a strict policy of its own.",
    "V6 Authentication": "No passwords: the service verifies keys and tokens; people authenticate at the issuer. Rows 6.1.1 and 6.3.1 apply.",
    "V7 Sessions": "None are kept; each request carries its credential. Row 7.4.1 applies.",
    "V10 OAuth and OIDC": "The service is a resource server only (10.3); it issues nothing to others and redirects nobody.",
    "V12 Communication": "TLS is ended by the operator's proxy; outgoing connections verify certificates by the platform's roots.",
    "V17 WebRTC": "None.",
    "1.2.6-1.2.8, 1.3.1, 1.3.8, 1.3.9, 1.3.11": "No LDAP, XPath, LaTeX, HTML editor, JNDI, memcache or mail.",
    "2.3.5, 2.4.2": "No flow needs two people or human timing.",
    "4.2.3, 4.2.4": "HTTP/1.1 only; a proxy that speaks HTTP/2 to clients keeps its own rules.",
    "4.3, 4.4": "No GraphQL, no WebSocket.",
    "11.4.2, 11.4.4": "No passwords are stored; API keys are 256 random bits, and a slow hash would only help who floods.",
    "13.3.3": "No security module: the keyring is a file; open.",
    "14.2.8": "Metadata inside stored files stays as sent: the owner's bytes are not changed.",
    "16.4.3": "Logs go to standard output as JSON; carrying them away is the operator's.",
}
"""What does not apply, or is somebody else's, by chapter or row."""
