FROM tax_rate
