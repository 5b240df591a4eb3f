SELECT sk AS sk_company_id, company_id, st_name AS status, name, in_name AS industry, rating AS sp_rating,
  NOT (left(rating, 1) = 'A' OR left(rating, 3) = 'BBB') AS is_low_grade, ceo, address AS address_line, zip AS postal_code,
  city, state AS state_prov, country, about AS description, founded AS founding_date, until IS NULL AS is_current,
  since AS effective_date, until AS end_date
FROM company, status_type, industry WHERE status = st_id AND company.industry = in_id
