SELECT c.sk AS sk_company_id, company_id, year AS fi_year, quarter AS fi_qtr, begins AS fi_qtr_start_date,
  amounts[1] AS fi_revenue, amounts[2] AS fi_net_earn, ratios[1] AS fi_basic_eps, ratios[2] AS fi_dilut_eps,
  ratios[3] AS fi_margin, amounts[3] AS fi_inventory, amounts[4] AS fi_assets, amounts[5] AS fi_liability,
  amounts[6] AS fi_out_basic, amounts[7] AS fi_out_dilut
FROM result r, LATERAL (
  SELECT sk FROM company c WHERE c.company_id = r.company_id
  ORDER BY inside(r.begins::TIMESTAMP, since, until) DESC, since LIMIT 1) c
