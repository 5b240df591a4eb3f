FROM status_type
