-- Versions of companies. A surrogate key is made of the key and of the second in which its version begins.
SELECT c.company_id * 10000000000 + unix_seconds(c.__START_AT) AS sk_company_id, c.company_id, s.st_name AS status,
  c.name, i.in_name AS industry, c.sp_rating, NOT (c.sp_rating LIKE 'A%' OR c.sp_rating LIKE 'BBB%') AS is_low_grade,
  c.ceo, c.address_line, c.postal_code, c.city, c.state_prov, c.country, c.description, c.founding_date,
  c.__END_AT IS NULL AS is_current, c.__START_AT AS effective_date, c.__END_AT AS end_date
FROM companies AS c
JOIN status_type AS s ON c.status = s.st_id
JOIN industry AS i ON c.industry_id = i.in_id
