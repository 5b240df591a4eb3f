-- Versions of customers with their tax rates, and what the prospects' file says of those that are current.
SELECT c.c_id * 10000000000 + unix_seconds(c.__START_AT) AS sk_customer_id, c.c_id AS customer_id, c.tax_id,
  t.st_name AS status, c.last_name, c.first_name, c.middle_initial,
  CASE WHEN c.gender IN ('M', 'F') THEN c.gender ELSE 'U' END AS gender, c.tier, c.dob, c.address_line, c.postal_code,
  c.city, c.state_prov, c.country, c.email, c.phone, n.tx_name AS national_tax_rate_desc,
  n.tx_rate AS national_tax_rate, l.tx_name AS local_tax_rate_desc, l.tx_rate AS local_tax_rate, p.agency_id,
  p.credit_rating, p.net_worth, p.marketing_nameplate, c.__END_AT IS NULL AS is_current,
  c.__START_AT AS effective_date, c.__END_AT AS end_date
FROM customers AS c
JOIN status_type AS t ON c.status = t.st_id
LEFT JOIN tax_rate AS n ON c.nat_tx_id = n.tx_id
LEFT JOIN tax_rate AS l ON c.lcl_tx_id = l.tx_id
LEFT JOIN prospect AS p ON upper(c.last_name) = upper(p.last) AND upper(c.first_name) = upper(p.first)
  AND upper(c.address_line) = upper(p.line) AND upper(c.postal_code) = upper(p.zip) AND c.__END_AT IS NULL
