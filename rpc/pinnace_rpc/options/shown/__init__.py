"""What commands print beside records: tables, the version, the manual page. Imports point to `options` alone."""
