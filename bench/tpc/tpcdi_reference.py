"""TPC-DI's tables that never or seldom change: dates, times, industries, states, kinds of trades, taxes."""

from __future__ import annotations

from datetime import date, timedelta

from bench.tpc.landing import Row, Rows

FIRST_DAY = date(2019, 1, 1)
YEARS = 2

STATES = {"ACTV": "Active", "CMPT": "Completed", "CNCL": "Canceled", "PNDG": "Pending", "SBMT": "Submitted",
          "INAC": "Inactive"}  # fmt: skip
TRADES = {"TMB": "Market Buy", "TMS": "Market Sell", "TSL": "Stop Loss", "TLS": "Limit Sell", "TLB": "Limit Buy"}
INDUSTRIES = ("Airlines", "Banking", "Chemicals", "Drugs", "Energy", "Forestry", "Gold", "Hotels")


def reference() -> Rows:
    """Their rows."""
    return {
        "date": [_date(FIRST_DAY + timedelta(days=n)) for n in range(366 * YEARS)],
        "time": [_minute(n) for n in range(24 * 60)],
        "industry": [{"in_id": name[:2].upper(), "in_name": name, "in_sc_id": name[:1]} for name in INDUSTRIES],
        "status_type": [{"st_id": key, "st_name": name} for key, name in STATES.items()],
        "trade_type": [
            {"tt_id": key, "tt_name": name, "tt_is_sell": int("S" in key), "tt_is_mrkt": int(key[1] == "M")}
            for key, name in TRADES.items()
        ],
        "tax_rate": [
            {"tx_id": f"{kind}{n}", "tx_name": f"{kind} tax of level {n}", "tx_rate": f"0.{n * width:05}"}
            for kind, levels, width in (("NA", 4, 9000), ("LC", 5, 1500))
            for n in range(1, levels + 1)
        ],
    }


def _date(day: date) -> Row:
    quarter = (day.month - 1) // 3 + 1
    return {
        "sk_date_id": f"{day:%Y%m%d}", "date_value": day.isoformat(), "date_desc": f"{day:%B} {day.day}, {day.year}",
        "calendar_year_id": day.year, "calendar_qtr_id": day.year * 10 + quarter,
        "calendar_qtr_desc": f"{day.year} Q{quarter}",
        "calendar_month_id": day.year * 100 + day.month, "calendar_month_desc": f"{day:%Y %B}",
        "day_of_week_num": day.isoweekday(), "day_of_week_desc": f"{day:%A}",
        "holiday_flag": int((day.month, day.day) in ((1, 1), (7, 4), (12, 25))),
    }  # fmt: skip


def _minute(number: int) -> Row:
    hour, minute = divmod(number, 60)
    return {
        "sk_time_id": hour * 100 + minute, "time_value": f"{hour:02}:{minute:02}", "hour_id": hour,
        "hour_desc": f"{hour:02}", "minute_id": minute, "minute_desc": f"{hour:02}:{minute:02}",
        "market_hours_flag": int(570 <= number < 960), "office_hours_flag": int(480 <= number < 1080),
    }  # fmt: skip
