"""The scanner engine `icap:NAME`: an antivirus behind an ICAP server (RFC 3507)."""
