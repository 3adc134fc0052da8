"""The rows of `docs/security/asvs.md`: how Sluice meets each requirement of ASVS 5.0, or why it does not apply.

Proofs are marks in tests. The requirements themselves are not repeated: they are OWASP's text, under its own licence
(CC BY-SA 4.0).
"""

from collections.abc import Mapping
from typing import Final

SOURCE: Final = "https://github.com/OWASP/ASVS/tree/v5.0.0/5.0/en"

# Chapter 5, complete: each row needs a proof.
V5: Final[Mapping[str, str]] = {
    "5.1.1": "[Formats](../formats.md) and [settings](../settings.md) list what is accepted, the limits, also after "
    "unpacking, and what a context may allow; [reasons](../reasons.md) list why a file is rejected. No rejected "
    "file is stored.",
    "5.2.1": "500 MB and 64 KiB in all, refused by Content-Length or at the limit; less by context; what uploads spool "
    "together is bounded by tenant and server; each check runs in bounded time and memory.",
    "5.2.2": "The content is sniffed and decoded by its format's own rules in a locked process; extension and "
    "content must agree, in archives too. Pages are recognised in UTF-8, UTF-16, UTF-32 and UTF-7. Archives and "
    "scripts anywhere in a picture, a recording, a font or a PDF are a second format, but for the files that a PDF "
    "lists as attached; [formats](../formats.md#second-formats) has the limits.",
    "5.2.3": "Declared sizes, ratio and number of entries are checked before anything is unpacked, actual ones "
    "during unpacking.",
    "5.2.4": "Quota, rate and plan per context and tenant, claimed in one statement; concurrent uploads per tenant. "
    "The user of the requirement is the tenant here.",
    "5.2.5": "Symbolic links, devices and pipes are refused as `archive_unsafe` in TAR, ZIP and 7z, junctions in 7z, wherever a "
    "header or extra field states them. A hard link in TAR or RAR, a stored copy, and a symbolic link or junction in RAR pass if they "
    "stay in the folder, and are refused otherwise ([decision 28](../decisions/0029-one-reading-of-an-archive.md)).",
    "5.2.6": "Pixels and frames are read from the header and checked before anything is decoded.",
    "5.3.1": "Objects are outside of every web root under generated keys and are served as attachments, sandboxed, "
    "never executed.",
    "5.3.2": "Keys come from a closed template language and generated ids; the sent name is only displayed.",
    "5.3.3": "Archives are never unpacked to paths; an entry that would leave its folder by any name that some reader "
    "takes for its own is refused.",
    "5.4.1": "The name is validated when it arrives; every download has one in Content-Disposition.",
    "5.4.2": "RFC 6266 with RFC 8187 for non-ASCII names; control characters are refused at upload.",
    "5.4.3": "clamd, or the builtin rules, named as such; an unavailable scanner is 503, an unscanned part "
    "`scan_incomplete`: neither is clean. Programs in packages and launch actions are recognised by the extensions that "
    "Gmail and Outlook block. RTF objects and mails are decoded in every reading that readers have, PDF objects also "
    "where no table lists them; what has more readings than are tried is `scan_incomplete`.",
}

# Requirements of other chapters, levels 1 to 3, whose id a test carries.
MORE: Final[Mapping[str, str]] = {
    "1.1.1": "Percent-encoding is undone once, by the server; names, keys and metadata are validated after that and "
    "never decoded again.",
    "1.1.2": "JSON, header values and URLs are encoded where they are written: by the library, `kit.disposition`, "
    "`files.links`.",
    "1.2.1": "Replies are JSON by a library; header values are checked for line ends; no HTML is made of input.",
    "1.2.2": "Links consist of fixed paths, generated ids and url-safe signatures; keys in S3 links are "
    "percent-encoded; only http and https.",
    "1.2.3": "Replies are JSON by one library; no JavaScript is generated.",
    "1.2.4": "Every query is built by SQLAlchemy with bound parameters, or is fixed text with bound parameters; an "
    "import contract limits SQL to repositories.",
    "1.2.5": "The service starts no other program; its checkers are forks of its own.",
    "1.2.9": "No regular expression is made of input.",
    "1.3.2": "No `eval`, `exec` or template engine; the static rules (ruff S) refuse them.",
    "1.3.3": "Names, keys, metadata and prefixes have a closed alphabet or are refused for control characters, with "
    "lengths (`sluice.kit.text`).",
    "1.3.4": "A script in SVG, in any spelling and encoding that an XML parser reads, is `virus_detected`; SVG leaves as "
    "an attachment under `sandbox`: it is displayed nowhere.",
    "1.3.5": "As 1.3.4: no input is interpreted as markup.",
    "1.3.6": "A tenant may name an endpoint only where its host is on the operator's list, as a bare origin that "
    "leads to public or listed addresses; both are checked before each use. The services inside a cloud machine are "
    "never public, in any notation. Redirects are not followed.",
    "1.3.7": "The path template is a closed language of eight words, not `str.format`.",
    "1.3.10": "No input is a format string; the path template is 1.3.7.",
    "1.4.1": "Python, and no native code of our own; `ctypes` calls the kernel for the confinement. Libraries that "
    "read strangers' files run in the locked child, whose crash is a result (15.2.5).",
    "1.4.2": "Integers have bounds in their schemas; Python's do not overflow, and columns are wide enough for the "
    "bounds.",
    "1.4.3": "Descriptors and connections are owned by one `with` block each; children are replaced after a number "
    "of files.",
    "1.5.1": "No DTD, no entity and no network is loaded by any XML that is read; an entity or DTD that is an address "
    "outside of the document is `archive_unsafe`, in any encoding, at any place, also put together by other entities.",
    "1.5.2": "JSON only, by a strict parser; no pickle. `sluice check --rules` reads YAML by `safe_load`.",
    "1.5.3": "One strict JSON parser (no duplicate names, no NaN, depth 32); one strict multipart parser.",
    "2.1.1": "[The reference](../reference/api.md) has type, length and pattern of every field.",
    "2.1.2": "[The inventory](inventory.md#fields-that-must-agree) says which fields belong together; half of a "
    "pair is refused.",
    "2.1.3": "[Choices](../choices.md), [settings](../settings.md) and [the way of an "
    "upload](../way-of-an-upload.md) have every limit and its scope.",
    "2.2.1": "Every body, field and parameter has a schema with bounds; unknown JSON fields are refused. So has the "
    "tenant that a token or a command names.",
    "2.2.2": "There is no client but the API; everything is validated in the service.",
    "2.2.3": "Fields that belong together are validated together, and again by the database's constraints.",
    "2.3.1": "An upload is one request; its stages come in one fixed order.",
    "2.3.2": "As 2.1.3: each limit has a reason or error code of its own.",
    "2.3.3": "Reserve, store, record: a crash at any moment leaves nothing acknowledged lost and nothing charged.",
    "2.3.4": "Quota, plan and rate are claimed by conditional statements; races end exactly at the limit.",
    "2.4.1": "Rate per context, plan per tenant, concurrent uploads per tenant, failed credentials per address, "
    "connections per address and server, files and attempts per upload token.",
    "3.2.1": "`attachment`, `nosniff`, `CSP: sandbox` on downloads; JSON otherwise, under `default-src 'none'`.",
    "3.4.1": "The proxies of `deploy/` send two years and `includeSubDomains` with every reply over TLS, their own "
    "too. The service itself has no TLS.",
    "3.4.2": "CORS headers name one origin that a tenant or an upload token lists; never `*`, and never with cookies.",
    "3.3.1": "The cookie of the console is `Secure` with the prefix `__Host-` where the service has an https address.",
    "3.3.2": "`SameSite=Lax`, and forms of other sites are refused besides.",
    "3.3.4": "The cookie is `HttpOnly`.",
    "3.4.3": "`default-src 'none'; frame-ancestors 'none'` on every reply; the API's reference page has a policy of "
    "its own.",
    "3.4.4": "`X-Content-Type-Options: nosniff` on every reply.",
    "3.4.5": "`Referrer-Policy: no-referrer` on every reply.",
    "3.4.6": "`frame-ancestors 'none'` on every reply.",
    "3.4.8": "`Cross-Origin-Opener-Policy: same-origin` on every page of the console.",
    "3.5.1": "The console takes forms of its own pages only, by `Sec-Fetch-Site` and `Origin`. Each request to the API "
    "carries its credential in a header that a browser does not add automatically.",
    "3.5.2": "As 3.5.1; the `Authorization` header always requires a preflight, which is refused unless "
    "its origin is listed.",
    "3.5.3": "Every change is POST, PATCH or DELETE. A GET of a file's link counts it.",
    "3.5.4": "Downloads may have a host of their own, which serves files and nothing else (`SLUICE_DOWNLOAD_URL`).",
    "3.7.1": "The API's reference and the console: scripts and styles of its own, no plug-ins; the policy refuses "
    "them. All else is JSON.",
    "3.7.2": "There are no redirects.",
    "4.1.1": "Every reply has the type of its content; JSON is UTF-8 by its standard.",
    "4.1.2": "There are no redirects; the operator's proxy refuses plain http or passes it on.",
    "4.1.3": "Forwarded addresses are believed only from configured proxies; links begin with the configured "
    "address, never with Host.",
    "4.1.4": "Methods that a path lacks are 405 with `Allow`; TRACE and CONNECT are among them.",
    "4.2.1": "Each frame is parsed in exactly one way; ambiguous framing is 400 and the connection closes.",
    "6.1.1": "Failed credentials are counted per address (IPv6 by /64), and a valid one still passes, so that "
    "no user can be locked out.",
    "6.1.3": "[The inventory](inventory.md#ways-in) lists the ways in, their strength and the common rules; every "
    "route requires the same scope of keys and tokens.",
    "6.3.1": "The same; a key holds 256 random bits, so that guessing is infeasible.",
    "6.3.2": "There are no default accounts; a first start creates a random key and shows it once, a production "
    "start creates none.",
    "6.3.3": "A passkey is two factors: a device, and its holder verified by it. At an issuer the second factor is the "
    "issuer's; keys are for machines.",
    "6.3.4": "As 6.1.3; a route without an entry in the table of scopes cannot be made.",
    "6.3.8": "Unknown, revoked, disabled, expired and wrong keys get the same bytes after one and the same query.",
    "6.4.1": "The link of an invitation has 256 random bits and works once, within a day.",
    "6.7.1": "Public keys of passkeys are rows of their tenant, which only a registration adds.",
    "6.7.2": "A challenge has 256 random bits, is of one browser, and is used up by one attempt within five minutes.",
    "6.8.1": "A user is identified by issuer and subject; each issuer has keys and algorithms of its own (10.3.3).",
    "6.8.2": "As 9.1.1: signatures are checked before any claim is read.",
    "7.2.1": "Keys and tokens are verified in the service alone.",
    "7.2.2": "Only the console keeps sessions, each begun by a link that works once, a passkey, or an ID token of the issuer. For the API, a person has a self-contained token of the issuer, which must expire; a program "
    "has a random key, created on request. No configured value is a credential of the API.",
    "7.2.3": "256 random bits of `secrets`, also of sessions and links.",
    "7.2.4": "Signing in begins a new session, and ends the one that the browser had.",
    "7.3.2": "A session of the console ends after eight hours.",
    "7.4.1": "A revoked or disabled key, and a suspended tenant, are refused by every process at once: cached "
    "values are confirmed.",
    "7.4.2": "A suspended tenant, a disabled or revoked key and a revoked upload token are refused at once. A user's token is valid until "
    "it expires; its lifetime is the issuer's. The sessions of a disabled or removed user of the console end.",
    "7.4.5": "An admin key disables and revokes keys, an admin of the console ends sessions of users; the operator suspends "
    "tenants.",
    "8.1.1": "The table of routes and scopes is data (`sluice.access`), and the API reference is generated from it.",
    "8.1.2": "The reference lists what each operation reads and writes; there are no permissions on single fields "
    "beyond the scope.",
    "8.2.1": "Every route requires its scope; one without an entry in the table cannot be made.",
    "8.2.2": "Every statement that changes or shows a caller rows names the tenant in its conditions, with row level "
    "security as a second check; another tenant's id gets the same bytes as an unknown one. The reads of all tenants, by the "
    "worker, the operator and signed links, are listed in the test with their reasons, and one statement that moves "
    "counts of all tenants.",
    "8.2.3": "Schemas list the fields of a reply and the fields that may be changed.",
    "8.3.1": "In the service, before a byte of the body is read.",
    "8.4.1": "As 8.2.2, on every route, with keys and with tokens.",
    "9.1.1": "The signature is checked before any claim is acted on.",
    "9.1.2": "Algorithms are fixed per issuer; `none` and every symmetric one are refused.",
    "9.1.3": "Keys come only from the configured address; a token with `jwk`, `jku`, `x5u` or `x5c` is refused.",
    "9.2.1": "`exp` is required, `nbf` and `iat` are checked; 30 s of leeway, none for the expiry.",
    "9.2.2": "`typ` is JWT or at+jwt, and the claims of an API token are required.",
    "9.2.3": "`aud` must name this service.",
    "9.2.4": "The same.",
    "10.1.1": "The console keeps no token of the issuer: it reads the ID token once and begins a session of its own.",
    "10.1.2": "State, nonce and PKCE verifier are 256 random bits each, of one attempt, in a cookie of the browser that "
    "began it.",
    "10.2.1": "State and PKCE; a response to another browser is refused.",
    "10.2.2": "There is one issuer, and a response that names another is refused.",
    "10.5.1": "The nonce of the ID token must be that of the attempt.",
    "10.5.2": "As 10.3.3.",
    "10.5.3": "The document that describes the issuer must name exactly the configured one.",
    "10.5.4": "`aud` must be the client of the console.",
    "10.3.1": "As 9.2.3.",
    "10.3.2": "Scopes come from the token; without any, from a setting that is empty by default.",
    "10.3.3": "A user is issuer and subject together.",
    "11.1.1": "[The inventory](inventory.md#keys): each key, its holder, its only purpose, how it is replaced, what "
    "its loss means.",
    "11.1.2": "[The inventory](inventory.md#algorithms): each algorithm with every place in the code that uses it, "
    "and its limits.",
    "11.2.1": "`cryptography` and PyJWT; no primitive is our own.",
    "11.2.2": "Sealed secrets name their key and are rotated while the service runs; algorithms of issuers are a "
    "setting.",
    "11.2.3": "The algorithms that Sluice chooses have 128 bits or more. RSA keys of issuers: "
    "`SLUICE_OIDC_RSA_BITS=3072` refuses shorter ones; the default is 2048, worth 112, which nearly all issuers use.",
    "11.3.1": "Only AES-GCM; PKCS#1 v1.5 only in RS256 signatures of issuers that the operator allows.",
    "11.3.2": "AES-256-GCM, random nonce, bound to its place.",
    "11.3.3": "The same: authenticated, with the tenant, the bucket and the field as associated data.",
    "11.4.1": "SHA-256, HMAC-SHA-256.",
    "11.4.3": "SHA-256.",
    "11.5.1": "`secrets` for every key, nonce and token id.",
    "11.6.1": "Ed25519 by `cryptography`; type, curve and size of issuers' keys are checked.",
    "12.1.1": "The proxies of `deploy/`: TLS 1.3 preferred, 1.2 accepted, nothing older.",
    "12.1.2": "The same: only suites with forward secrecy and authenticated encryption, the strongest first.",
    "12.2.1": "The same: no port without TLS, no fallback.",
    "12.3.2": "Issuers and S3 over https are verified by the platform's roots and names; PostgreSQL by `sslmode`: "
    "set `verify-full`.",
    "12.3.4": "PostgreSQL by `sslrootcert`: only the authority named there is trusted.",
    "13.1.1": "[The inventory](inventory.md#connections): each connection, its setting, how the other side is "
    "identified; a tenant may name one address, `endpoint_url` (1.3.6).",
    "13.2.1": "PostgreSQL identifies the service by a client certificate of a role of its own, S3 by signed "
    "requests, Redis by a user. clamd has no credentials: keep it on a socket or a private network.",
    "13.2.2": "With two roles on PostgreSQL the service's role may read and write rows, one tenant's at a time, and "
    "change no table; the checker runs in a child without permissions.",
    "13.2.3": "No credential has a default.",
    "13.2.4": "Database, Redis, clamd, issuer and collector are settings; endpoints of tenants are on a list (1.3.6).",
    "13.2.5": "As 13.2.4; the checker has no network at all.",
    "13.3.1": "Key files of mode 0600 are created once, never in the database; a production start creates none.",
    "13.3.2": "Key files are 0600 and read by the service's user alone; the child of the sandbox cannot open files.",
    "13.3.4": "`sluice secrets rotate`, without a restart and resumable. The operator decides how often.",
    "13.4.1": "The package holds `server/src/sluice` and nothing else.",
    "13.4.2": "There is no debug mode; failpoints are refused in production.",
    "13.4.3": "No folder is served.",
    "13.4.4": "TRACE is 405.",
    "13.4.5": "`/metrics` and each engine in `/health/ready` need a token; others see one word; the reference "
    "page is public on purpose.",
    "13.4.6": "No reply names a server or its version.",
    "14.1.1": "[The inventory](inventory.md#data): every column of every table, files, keys and encoded values, by "
    "level.",
    "14.1.2": "The same: what each level requires for encryption, integrity, retention, logs and access.",
    "14.2.1": "Credentials are read only from the Authorization header. A signed link gives access to one file for "
    "a short time.",
    "14.2.2": "`no-store` on replies; the cache of verdicts holds hashes under a key; spools are unlinked files.",
    "14.2.3": "Data is sent only to the operator's own neighbours.",
    "14.2.4": "The worker enforces retention; tests search logs and traces for planted secrets (16.2.5). Databases, "
    "objects and backups are 0600 from their first byte, their folders 0700.",
    "14.2.6": "Access keys are masked, secrets never shown, API keys once.",
    "14.3.2": "`Cache-Control: no-store` on every reply.",
    "15.1.1": "[SECURITY.md](../../SECURITY.md#libraries): days by severity, and for new releases.",
    "15.1.2": "Hash-pinned locks; `make sbom` writes CycloneDX.",
    "15.1.3": "[The inventory](inventory.md#what-is-costly): expensive operations, each limit, and the reply beyond "
    "it; no wait is longer than a proxy's.",
    "15.2.1": "`make audit` checks every pinned library and fails while one has a known vulnerability, within the "
    "days of 15.1.1.",
    "15.2.2": "Time, memory and number are limited for each check, tenant and address, also of responses that are not "
    "read; beyond them 429, 503, a rejection or a reset. No parser or rule takes more than 2.3 times as long for twice "
    "the input.",
    "15.2.3": "The package has no tests and no samples; readers under GPL are optional extras.",
    "15.2.5": "Parsers of strangers' bytes run in a locked process without network, files or new processes. What one "
    "reports decides on files of its own tenant only.",
    "15.3.1": "Replies are schemas with named fields.",
    "15.3.2": "Key sets and buckets are requested without following redirects.",
    "15.3.3": "Unknown and read-only fields are refused.",
    "15.3.4": "As 4.1.3.",
    "15.3.5": 'Types are strict: `"10"`, `1.5` and `true` are not integers.',
    "15.3.7": "One parser for each place: form fields once, query parameters as declared, single header fields are "
    "refused if repeated.",
    "15.4.2": "As 2.3.4: check and claim are one statement.",
    "16.1.1": "[The inventory](inventory.md#log-lines): every line, its layer and format, where it goes, who reads "
    "it; and the other logs.",
    "16.2.1": "Each line has time, level, event, `request_id`, and the tenant once known.",
    "16.2.2": "UTC, ISO 8601; leases use the database's clock. Synchronising machines is the operator's.",
    "16.2.3": "Only standard error, and traces if variables enable them.",
    "16.2.4": "JSON, one object per line.",
    "16.2.5": "No secret in any log line, response, row or file: tests search for planted secrets.",
    "16.3.1": "A refused credential has a line with its type and the address; with `SLUICE_LOG_LOGINS` an accepted "
    "one too. A key has its last use, uploads and changes have their actor.",
    "16.3.2": "Refused and completed actions are in the audit log, with who, what and when.",
    "16.3.3": "Refusals for a missing scope are in the audit log, rejected uploads in the decision log, other "
    "refusals in the metrics by status.",
    "16.3.4": "Unexpected exceptions are logged with their traceback under the `Request-Id`; failed neighbours by "
    "name.",
    "16.4.1": "Values are written as JSON, without line ends.",
    "16.4.2": "The audit log is append-only: the database refuses a change of a row.",
    "16.5.1": "One envelope for every failure, without a traceback; the log has it under the `Request-Id`.",
    "16.5.2": "An unavailable engine is 503, with its name; nothing is stored and nothing charged.",
    "16.5.3": "An unavailable engine is never a pass: neither scanner nor checker nor limiter fails open.",
    "16.5.4": "The outermost layer catches every unexpected exception; one in an archive walker refuses the file.",
}

# Requirements that do not apply, or that are not Sluice's, by chapter or row.
ELSEWHERE: Final[Mapping[str, str]] = {
    "1.2.6-1.2.8, 1.3.1, 1.3.8, 1.3.9, 1.3.11": "No LDAP, XPath of strangers, LaTeX, HTML editor, JNDI, memcache or "
    "mail.",
    "2.3.5, 2.4.2": "No flow needs two people or human timing.",
    "3.2.2, 3.5.5": "No page shows input; no `postMessage`.",
    "3.3.3": "No cookie of the console needs a subdomain.",
    "4.2.3, 4.2.4": "HTTP/1.1 only; a proxy that speaks HTTP/2 to clients keeps its own rules.",
    "4.3.1, 4.3.2, 4.4.1-4.4.4": "No GraphQL, no WebSocket.",
    "6.1.2, 6.2.1-6.2.12": "No passwords.",
    "6.4.2-6.4.4, 6.5.1-6.5.5, 6.6.1-6.6.3": "No passwords to hint at or recover, no codes over another channel.",
    "6.8.3, 6.8.4": "No SAML. Strength and age of a person's login are the issuer's.",
    "7.1.1-7.1.3, 7.3.1, 7.4.3, 7.4.4, 7.5.1, 7.5.2, 7.6.1, 7.6.2": "The API keeps no sessions. Those of the "
    "console end after eight hours, whatever is done in them; there is no password to change and no session of an "
    "issuer.",
    "10.5.5": "There is no logout by the issuer.",
    "10.3.4": "As 6.8.4.",
    "10.4.1-10.4.11, 10.6.1, 10.6.2, 10.7.1-10.7.3": "The service is not an authorization server; its local issuer "
    "is a command of the operator.",
    "11.4.2, 11.4.4": "No passwords are stored; API keys are 256 random bits, and a slow hash would only help a flood.",
    "12.1.3": "No client certificate is taken for an identity.",
    "12.2.2": "The operator chooses the authority that signs the proxy's certificate.",
    "12.3.1, 12.3.3": "The operator's: TLS to PostgreSQL, Redis, S3, issuer and collector are settings; clamd has "
    "none. Not enforced by the service.",
    "13.3.3": "No security module: the keyring is a file; open.",
    "14.2.8": "Metadata inside stored files stays as sent: the owner's bytes are not changed.",
    "14.3.1, 14.3.3": "No browser storage.",
    "15.3.6": "No JavaScript.",
    "16.4.3": "Logs go to standard error as JSON; collecting them is the operator's.",
    "17.1.1, 17.2.1-17.2.4, 17.3.1, 17.3.2": "No WebRTC.",
}
