"""The scanner engine `clamd`: a pool of ClamAV daemons, spoken to over their own protocol."""
