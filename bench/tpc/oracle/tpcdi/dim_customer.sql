WITH told AS (FROM prospected WHERE day = (SELECT max(day) FROM prospected))
SELECT c.c_id * 10000000000 + seconds(since) AS sk_customer_id, c.c_id AS customer_id, fixed.tax AS tax_id, status,
  fixed."last" AS last_name, fixed."first" AS first_name, fixed."middle" AS middle_initial,
  CASE WHEN fixed.gender IN ('M', 'F') THEN fixed.gender ELSE 'U' END AS gender, tier, fixed.dob AS dob,
  c.address.line AS address_line, c.address.zip AS postal_code, c.address.city AS city, c.address.state AS state_prov,
  c.address.country AS country, fixed.email AS email, fixed.phone AS phone, n.tx_name AS national_tax_rate_desc,
  n.tx_rate AS national_tax_rate, l.tx_name AS local_tax_rate_desc, l.tx_rate AS local_tax_rate, p.agency_id,
  p.credit_rating, p.net_worth, until IS NULL AS is_current, since AS effective_date, until AS end_date
FROM customer c
JOIN tax_rate n ON n.tx_id = fixed.nat JOIN tax_rate l ON l.tx_id = fixed.lcl
LEFT JOIN told p ON c.fixed."last" = p."last" AND c.fixed."first" = p."first" AND c.address.line = p.line
  AND c.address.zip = p.zip AND until IS NULL
