-- Quarterly results with the version of the company that held when the quarter began, or the first one.
WITH named AS (
  SELECT r.*, c.company_id AS known_id
  FROM results AS r
  JOIN (SELECT DISTINCT company_id, name FROM companies) AS c ON r.company_name = c.name
  UNION ALL
  SELECT r.*, r.company_id AS known_id FROM results AS r WHERE r.company_id > 0
), versions AS (
  SELECT company_id, sk_company_id, effective_date, end_date,
    row_number() OVER (PARTITION BY company_id ORDER BY effective_date) AS number
  FROM dim_company
)
SELECT v.sk_company_id, v.company_id, n.fi_year, n.fi_qtr, n.fi_qtr_start_date, n.fi_revenue, n.fi_net_earn,
  n.fi_basic_eps, n.fi_dilut_eps, n.fi_margin, n.fi_inventory, n.fi_assets, n.fi_liability, n.fi_out_basic,
  n.fi_out_dilut
FROM named AS n
JOIN versions AS v ON n.known_id = v.company_id
  AND (v.number = 1 OR v.effective_date <= n.fi_qtr_start_date)
  AND (v.end_date > n.fi_qtr_start_date OR v.end_date IS NULL)
