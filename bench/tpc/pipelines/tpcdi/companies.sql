SELECT CAST(substring(w.value, 79, 10) AS BIGINT) AS company_id, trim(substring(w.value, 19, 60)) AS name,
  trim(substring(w.value, 89, 4)) AS status, substring(w.value, 93, 2) AS industry_id,
  trim(substring(w.value, 95, 4)) AS sp_rating, to_date(substring(w.value, 99, 8), 'yyyyMMdd') AS founding_date,
  trim(substring(w.value, 107, 80)) AS address_line, trim(substring(w.value, 187, 12)) AS postal_code,
  trim(substring(w.value, 199, 25)) AS city, trim(substring(w.value, 224, 20)) AS state_prov,
  trim(substring(w.value, 244, 24)) AS country, trim(substring(w.value, 268, 46)) AS ceo,
  trim(substring(w.value, 314, 150)) AS description,
  to_timestamp(substring(w.value, 1, 15), 'yyyyMMdd-HHmmss') AS pts
FROM STREAM(finwire_landed) AS w
WHERE substring(w.value, 16, 3) = 'CMP'
